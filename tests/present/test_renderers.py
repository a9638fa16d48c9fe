"""Values of a page in each of their forms: an ECharts option, one HTML file, a terminal of any width, a paper, Markdown."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from equipoise import present
from equipoise.certificate import Certificate, Check
from equipoise.document import Document
from equipoise.present import draw, echarts, page, terminal
from equipoise.present.figures import (
    CONTRAST,
    SHAPES,
    Axis,
    Drawing,
    Figure,
    Mark,
    Panel,
    Series,
    Sheet,
    bars,
    contrast,
    looks,
)
from equipoise.present.html import html_of
from equipoise.present.markdown import markdown
from equipoise.present.paper import draw_sheet
from equipoise.present.text import fixed, power, tight, with_error
from equipoise.present.values import (
    Cell,
    Chapter,
    Choice,
    Code,
    Column,
    Controls,
    Facts,
    Fold,
    KeyNumber,
    KeyNumbers,
    Legend,
    Page,
    Section,
    Table,
    Text,
    Widget,
)
from refusals import refused

FACTS = {"A": {"colour": "#d95f02", "marker": "rect"}, "B": {"marker": "emptyCircle", "line": "dashed"}}
LOOKS = looks(["A", "B", "Mine"], FACTS)
LINES = [Series(look.name, [10, 20, 60], [90, None, 40], error=[1, 2, 3], look=look) for look in LOOKS.values()]
FIGURE = Figure("Tasks in time", Axis("tasks", point="{value} tasks"), Axis("% of tasks", low=0, high=100), LINES)
BARS = Figure("Utility", Axis("utility"), Axis(groups=list(LOOKS)), [Series("earned", [9, 1, 4], [0, 1, 2], "bars")])
COLUMNS = [Column("policy", "left"), Column("success of all tasks"), Column("energy", drop=1), Column("idle", drop=2)]
ROWS = [[Cell(name, look=look), Cell("1,234,567.8", best=True), "12,345,678", "9.9"] for name, look in LOOKS.items()]
TABLE = Table("At 60 tasks", COLUMNS, ROWS, note="Means over seeds.")
PASSED = Certificate((Check.at_most("gap", 1e-7, 1e-6, "how far it is"),))


def text_of(*blocks, beside=(), **more):
    return html_of(Page(Document("share", {}, version="0.2.0", **more), "A page", blocks, dict(beside)))


def shown(width, *values):
    console = Console(width=width, record=True, file=None, legacy_windows=False)
    with console.capture() as captured:
        terminal.show(console, *values)
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.get())


# Looks.


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.sampled_from(["#ffff00", "#000000", "#8a68b5", "", "red"])))
def test_every_look_can_be_read_on_light_and_on_dark_paper(colours):
    """Whatever colour a policy states, or none."""
    for look in looks(colours, {name: {"colour": colour} for name, colour in colours.items()}).values():
        assert look.plain in SHAPES
        for shade, (paper, least) in zip((look.light, look.dark), CONTRAST.items(), strict=True):
            assert contrast(shade, paper) >= least


def test_a_colour_is_used_once_where_asked():
    """The second that states it gets a spare one."""
    same = {name: {"colour": "#d95f02"} for name in "AB"}
    assert len({look.light for look in looks("AB", same, once=True).values()}) == 2
    assert len({look.light for look in looks("AB", same).values()}) == 1


# ECharts.


def test_a_line_has_its_policy_s_look_and_whiskers_of_one_name():
    """So one click hides both; a missing value is a gap, without a whisker."""
    option = echarts.option(FIGURE)
    line, whiskers = (one for one in option["series"] if one["name"] == "B")
    assert line["lineStyle"]["type"] == "dashed" and line["itemStyle"]["borderColor"] == LOOKS["B"].colour
    assert line["data"][1] == [20.0, None, 2.0]
    assert [point[0] for point in whiskers["data"]] == [10.0, 60.0]


def test_a_logarithmic_axis_leaves_out_what_has_no_place_on_it():
    """Zeros are gaps, limits whole decades."""
    figure = Figure("Gap", Axis("round"), Axis("gap", log=True), [Series("gap", [0, 1, 2], [3.0, 0.0, 0.02])])
    option = echarts.option(figure)
    assert option["series"][0]["data"] == [[0.0, 3.0], [1.0, None], [2.0, 0.02]]
    assert (option["yAxis"]["min"], option["yAxis"]["max"]) == (0.01, 10.0)


def test_lying_bars_have_names_upright_and_values_across():
    """Each bar is [value, place]."""
    option = echarts.option(BARS)
    assert option["yAxis"]["data"] == list(LOOKS) and option["yAxis"]["type"] == "category"
    assert option["series"][0]["data"][0] == [9.0, 0.0]


def test_marks_are_drawn_even_where_there_are_several():
    """At values of either axis, with names."""
    figure = replace(FIGURE, marks=[Mark("x", 15, "here"), Mark("y", 50, "half")])
    marks = [one["markLine"]["data"][0] for one in echarts.option(figure)["series"] if "markLine" in one]
    assert marks == [{"xAxis": 15}, {"yAxis": 50}]


def test_a_band_is_the_outline_of_its_edges():
    """There on the upper edge, back on the lower one."""
    series = Series("median", [1, 2], [5, 6], band=([4, 5], [6, 8]))
    band = echarts.option(Figure("Band", Axis("x"), Axis("y"), [series]))["series"][1]
    assert band["outline"] == [[1.0, 6.0], [2.0, 8.0], [2.0, 5.0], [1.0, 4.0]]


def test_a_figure_without_series_is_a_heading_and_a_sentence():
    """No empty chart."""
    page = text_of(Figure("Nothing", Axis("x"), Axis("y"), caption="There is nothing to show."))
    assert (
        "There is nothing to show." in page
        and "data-chart" not in page
        and "echarts" not in page.partition("<body>")[2]
    )


# HTML.


def test_every_block_stands_in_the_page():
    """Once, in its order, with its data embedded."""
    blocks = [
        Text("words", "Strong.", banner=True),
        KeyNumbers([KeyNumber("rounds", "500", "done")]),
        TABLE,
        Legend(list(LOOKS.values()), bound="oracle bound"),
        FIGURE,
        Drawing("raw", "Raw", "a raw chart", "its caption", {"series": []}),
        Section("Part", [Facts([("machines", "3")]), Fold("more", [Code("trace")])], tone="good", mark="fine"),
        Chapter("Chapter", "lead"),
    ]
    page = text_of(*blocks, certificate=PASSED, config={"seeds": 3}, beside={"result.json": "holds it"})
    options = json.loads(re.search(r'id="chart-data">(.*?)</script>', page, re.S)[1])
    assert set(options) == {"tasks-in-time", "raw"}
    wanted = [
        "Strong.",
        "Certificate:",
        "rounds",
        "At 60 tasks",
        "oracle bound",
        "Raw",
        "machines",
        "trace",
        "Chapter",
        "seeds: 3",
    ]
    body = page.partition("<body>")[2]
    places = [body.index(words) for words in [*wanted, "seeds: 3"]]
    assert places == sorted(places)


def test_a_widget_brings_its_script_and_its_data(monkeypatch, tmp_path):
    """The script before the charts are mounted, the data where it looks for them, the list with the chosen entry."""
    (tmp_path / "try.js").write_text("/* the script */")
    monkeypatch.setattr("equipoise.present.html.TEMPLATES", tmp_path)
    for name in ("style.css", "charts.js"):
        (tmp_path / name).write_text("")
    choice = Choice("which", "Task", ["one", "two"], 1)
    page = text_of(Widget("try", {"x": 1}, [Controls("Choose", [choice], "the story")]))
    assert '<script type="application/json" id="try-data">{"x":1}</script>' in page and "/* the script */" in page
    assert '<option value="1" selected>two</option>' in page and "the story" in page


def test_nothing_in_a_page_can_become_markup():
    """Names, words and tooltips come from users."""
    bad = "<script>alert(1)</script>"
    figure = Figure(bad, Axis(bad), Axis(bad), [Series(bad, [1], [1], tips=[bad])], caption=bad, key="x")
    table = Table(bad, [Column(bad, "left")], [[Cell(bad, bad)]], bad)
    page = text_of(figure, table, Text(bad, bad), Section(bad, [Facts([(bad, bad)])], mark=bad), config={bad: bad})
    assert bad not in page and "alert(1)" in page


def test_two_charts_of_one_name_are_refused():
    """The page could only fill one."""
    with pytest.raises(ValueError, match="tasks-in-time"):
        text_of(FIGURE, FIGURE)


def test_a_verb_without_a_page_is_refused_in_one_line():
    """With the verbs that have one."""
    for function in (page, draw):
        with refused("document.verb", "'unheard'"):
            function(Document("unheard", {}))


# The terminal.


@pytest.mark.parametrize("width", [120, 80, 60, 45, 30])
def test_a_table_fits_and_never_cuts_a_number(width):
    """Columns leave by their `drop`, the largest first; what is there is whole."""
    lines = shown(width, TABLE).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("1,234,567.8") == 3
    assert ("12,345,678" in text) or ("also shows" in " ".join(lines))
    if "9.9" in text:
        assert "12,345,678" in text


@given(
    st.lists(st.lists(st.integers(0, 10**9), min_size=4, max_size=4), min_size=1, max_size=4),
    st.integers(40, 120),
    st.text(st.characters(categories=["Ll"]), min_size=1, max_size=40),
)
def test_whatever_the_numbers_a_table_fits(rows, width, name):
    """Names are broken last, numbers never."""
    columns = [Column("name", "left"), Column("first"), *(Column(f"c{k}", drop=k + 1) for k in range(3))]
    lines = shown(width, Table("T", columns, [[name, *map(str, row)] for row in rows])).splitlines()
    assert max(map(len, lines)) <= width
    assert all(str(row[0]) in "\n".join(lines) for row in rows)


def test_a_table_that_may_drop_nothing_goes_on_below_with_its_names():
    """Five wide columns at 80: names stand beside all of their numbers, whole."""
    columns = [Column("policy", "left"), *(Column(f"column {k}") for k in range(4))]
    text = shown(80, Table("T", columns, [["UARA+LARA", *["50.0 · 47.6 ±0.5 ±0.5"] * 4], ["SDF", *["1"] * 4]]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("50.0 · 47.6 ±0.5 ±0.5") == 4
    assert all(line.startswith("UARA+LARA") for line in text.splitlines() if "47.6" in line)


def test_certificates_and_key_numbers_are_whole_at_80_columns():
    """Meanings are broken over lines, numbers and names are not."""
    long = Certificate((Check.at_most("a_long_name_of_a_check", 1234567.0, 12345678.0, "a meaning " * 20),))
    text = shown(80, long, KeyNumbers([KeyNumber("rounds", "1,234", "in 3 s")]))
    assert max(map(len, text.splitlines())) <= 80
    assert all(part in text for part in ("a_long_name_of_a_check", "1,234,567", "12,345,678", "1,234, in 3 s"))


# Markdown, and numbers.


def test_markdown_has_tables_and_escapes_its_signs():
    """A bar in a cell would end it."""
    text = markdown([Chapter("C"), Table("", [Column("a", "left"), Column("b")], [[Cell("x", link="#x"), "|y_1|"]])])
    assert text == "## C\n\n| a | b |\n|---|---:|\n| [x](#x) | \\|y\\_1\\| |\n"


def test_numbers_with_a_fixed_number_of_digits():
    """By hand."""
    assert (fixed(-1234.56, 1), fixed(2, 1, "+"), fixed(None, 1)) == ("−1,234.6", "+2.0", "–")
    assert (with_error(57, 0.61, 1), tight(57, 0.61, 1)) == ("57.0 ±\N{NO-BREAK SPACE}0.6", "57.0 ±0.6")
    assert (with_error(57, None, 1), with_error(None, 1, 1)) == ("57.0", "–")
    assert (power(3.24e-7), power(0.0), power(4.0), power(1e12)) == ("3.2e-7", "0", "4.0", "1.0e12")


# The paper.


def test_a_sheet_has_a_panel_for_each_figure_and_one_legend():
    """Two beside each other on a page, below each other in a column; standard errors are bands."""
    wide = draw_sheet(Sheet([Panel(FIGURE), Panel(BARS)]), "page")
    assert [one.get_title(loc="left") for one in wide.axes] == ["(a) Tasks in time", "(b) Utility"]
    assert len(wide.legends) == 1 and len(wide.axes[0].collections) == 3
    narrow = draw_sheet(Sheet([Panel(FIGURE), Panel(BARS)]), "column")
    assert narrow.get_figheight() > 1.5 * wide.get_figheight()


def test_spans_lie_in_their_lanes():
    """A span from 2 to 5 in the lower half of lane 1; y counts downwards."""
    lanes = Figure("Lives", Axis("step"), Axis(groups=["first", "second"]))
    drawn = draw_sheet(Sheet([Panel(lanes, spans=[(2, 5, 1, 0.0, 0.5, "@blue")])]), 3.5)
    (box,) = drawn.axes[0].patches
    assert (box.get_x(), box.get_width()) == (2, 3)
    assert (box.get_y(), box.get_height()) == (1.0, 0.5)


def test_bars_of_groups_have_their_errors():
    """On paper too."""
    figure = Figure("Groups", Axis("kind", groups=["a", "b"]), Axis("v"), [bars("x", [1, 2], [0.1, 0.2])])
    (axes,) = draw_sheet(Sheet([Panel(figure)]), "column").axes
    assert [round(patch.get_height()) for patch in axes.patches] == [1, 2] and axes.collections


def test_a_column_that_says_nothing_of_a_row_is_named() -> None:
    """`Table.of` drops no cell silently."""
    with pytest.raises(TypeError, match="column 'idle'"):
        Table.of("T", [{"policy": "EDF"}], [Column("policy", of=lambda row: row["policy"]), Column("idle")])


def test_the_page_that_is_shown_as_an_example_can_be_written() -> None:
    """As it stands in the docstring of equipoise.present."""
    text = (present.__doc__ or "").partition("For example:\n")[2].partition("\nclaims.py is")[0]
    written: dict[str, Any] = {}
    exec(textwrap.dedent(text), written)
    rows = [
        {"policy": name, "load": load, "success": 50.0, "energy": 7.0} for name in ("EDF", "SDF") for load in (10, 60)
    ]
    html = html_of(written["page"](Document("share", {"rows": rows}, None, {})))
    assert "Tasks finished in time" in html
    assert "Means over seeds." in html
