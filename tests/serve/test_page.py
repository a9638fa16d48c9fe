"""The live page in a real browser against a real server: what it shows, what it does, and that it trusts no name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from page_visit import CHROMIUM, COLOURS, FAINT, FLAGS, SCREENS, Server, Visit, fill

HOSTILE = '<img src=x onerror="document.title=1;alert(1)"><script>alert(2)</script>'

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no browser test")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Server]]:
    running: list[Server] = []

    def begin(machines: int) -> Server:
        running.append(Server(tmp_path_factory.mktemp("serve"), machines))
        return running[-1]

    yield begin
    for server in running:
        server.end()


@pytest.fixture(scope="module")
def server(start: Callable[[int], Server]) -> Server:
    """Six machines and a few jobs, shared: each test brings jobs of its own."""
    server = start(6)
    for k in range(8):
        server.submit(f"seed-{k}", workers=4, hours=2 + k % 3)
    return server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    with playwright.sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Callable[..., Visit]]:
    open_ones: list[Visit] = []

    def begin(screen: str = "desktop", scheme: str = "light", at: Server | None = None) -> Visit:
        open_ones.append(Visit(browser, at or server, screen, scheme))
        return open_ones[-1]

    yield begin
    for one in open_ones:
        one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_draws_everything_and_asks_only_its_own_server(visit: Any, screen: str, scheme: str) -> None:
    """Three charts with something in them, a silent console, no request elsewhere, nothing wider than the screen."""
    here = visit(screen, scheme)
    page = here.open()
    page.wait_for_function("() => document.querySelectorAll('#checks tr').length > 0")
    page.wait_for_selector("#jobs .row")
    page.wait_for_timeout(300)
    assert min(page.evaluate(COLOURS, place) for place in ("#gantt-view", "#usage", "#prices")) > 3
    assert {urlsplit(url).netloc for url in here.asked} == {urlsplit(here.server.url).netloc}
    assert here.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(visit: Any, scheme: str) -> None:
    """No text, also of the form and of a job, is under 4.5 to 1 (WCAG AA)."""
    page = visit(scheme=scheme).open()
    page.wait_for_selector("#jobs .row")
    assert page.evaluate(FAINT) == []
    page.click("#new-job-button")
    assert page.evaluate(FAINT) == []
    page.press("#new-job", "Escape")
    page.click("#jobs .row >> nth=0")
    page.wait_for_selector("#job .history li")
    assert page.evaluate(FAINT) == []


def test_the_chosen_theme_is_remembered(visit: Any) -> None:
    """Dark by choice on a light system: still so after a reload, and the charts are dark with it."""
    page = visit().open()
    corner = (
        """() => [...document.querySelector('#gantt-view canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"""
    )
    assert page.evaluate(corner)[0] > 200
    page.click("#theme")
    page.reload(wait_until="domcontentloaded")
    page.wait_for_selector("#connection.live")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.wait_for_function(f"() => ({corner})()[0] < 60")


def test_a_job_is_checked_submitted_and_drawn(visit: Any) -> None:
    """The dry run stores nothing; once submitted, the job lies in the Gantt where the API says, and on top of the table."""
    here = visit()
    page = here.open()
    page.click("#new-job-button")
    page.fill("#job-form [name=name]", "by-form")
    page.click("#check-job")
    page.wait_for_selector("#submit-job:not([hidden])")
    assert "promised" in page.inner_text("#job-answer")
    assert here.server.named("by-form") == []
    page.click("#submit-job")
    drawn = here.wait_for_bars_of("by-form")
    [told] = here.server.named("by-form")
    cells = here.server.get(f"/v1/jobs/{told['id']}")["cells"]
    assert {(slot, bar["machine"]) for bar in drawn for slot in range(bar["first"], bar["last"] + 1)} == {
        (slot, machine) for slot, machine, _, _ in cells
    }
    page.wait_for_selector(f'#jobs .row[data-index="0"][data-job="{told["id"]}"]')
    assert here.complaints == []


def test_a_lost_answer_does_not_submit_twice(visit: Any) -> None:
    """The server's first answer never arrives; the button is pressed again: one job, by the key both requests carry."""
    here = visit()
    page = here.open()
    lost = []

    def lose_first(route: Any) -> None:
        if route.request.method != "POST" or "dry_run" in route.request.url or lost:
            route.continue_()
        else:
            lost.append(route.fetch())
            route.abort()

    page.route("**/v1/jobs*", lose_first)
    page.click("#new-job-button")
    page.fill("#job-form [name=name]", "once")
    page.press("#job-form [name=name]", "Enter")
    page.click("#submit-job")
    page.wait_for_selector("#job-answer .error")
    page.click("#submit-job")
    page.wait_for_selector("#new-job", state="hidden")
    assert len(lost) == 1
    assert len(here.server.named("once")) == 1


def test_a_job_is_told_by_samples_or_as_json(visit: Any) -> None:
    """By samples: one GPU through 1,200,000 samples of 1 ms each is 20 minutes of work. As JSON: whatever the API reads."""
    here = visit()
    page = here.open()
    page.click("#new-job-button")
    page.fill("#job-form [name=name]", "by-samples")
    page.check("#job-form [value=long]", force=True)
    for field, value in {"work": "1200000", "batch": "1", "time_per_sample": "1ms", "gradient": "1MB"}.items():
        page.fill(f"#job-form [name={field}]", value)
    page.click("#check-job")
    page.click("#submit-job")
    here.wait_for_bars_of("by-samples")
    assert here.server.named("by-samples")[0]["work"] == 1_200_000
    page.click("#new-job-button")
    page.check("#job-form [value=json]", force=True)
    worth = {"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6}
    job = {"name": "by-json", "worker": {"gpu": 1}, "workers": 1, "duration": "1h", "utility": worth}
    page.fill("#job-form [name=json]", json.dumps(job))
    page.click("#check-job")
    page.click("#submit-job")
    here.wait_for_bars_of("by-json")


def test_what_the_server_refuses_is_said_in_its_words(visit: Any) -> None:
    page = visit().open()
    page.click("#new-job-button")
    page.fill("#job-form [name=name]", "endless")
    page.fill("#job-form [name=duration]", "two fortnights")
    page.click("#check-job")
    page.wait_for_selector("#job-answer .error")
    assert "two fortnights" in page.inner_text("#job-answer")
    assert page.is_hidden("#submit-job")


def test_a_machine_goes_down_and_its_bars_move(visit: Any) -> None:
    """Taken down by the button: no bar is left on it, and the Gantt again shows what the schedule of the API says."""
    here = visit()
    here.server.submit("to-move", workers=8, hours=2)
    page = here.open()
    victim = here.wait_for_bars_of("to-move")[0]["machine"]
    page.click(f'#machines [data-machine="{victim}"][data-what="down"]')
    page.click("#confirm-yes")
    page.wait_for_function("m => !equipoise.gantt.bars().some((bar) => bar.machine === m)", arg=victim)
    assert here.bars(name="to-move")
    told = here.server.get("/v1/schedule")
    assert {(b["job"], b["machine"], b["first"], b["last"]) for b in here.bars()} == {
        (b["job"], told["machines"][b["machine"]], b["first"], b["last"]) for b in told["bars"]
    }
    page.click(f'#machines [data-machine="{victim}"][data-what="up"]')
    page.wait_for_selector(f'#machines [data-machine="{victim}"][data-what="drain"]')


def test_a_hostile_name_is_only_text(visit: Any) -> None:
    """A job named after an attack is read as such in table, feed, drawer and tip, and makes no element and no request."""
    here = visit()
    hostile = here.server.submit(HOSTILE, tags={"x": HOSTILE})
    page = here.open()
    page.wait_for_selector(f'#jobs .row[data-job="{hostile["id"]}"]')
    assert page.inner_text(f'#jobs .row[data-job="{hostile["id"]}"] .name b') == HOSTILE
    page.click(f'#jobs .row[data-job="{hostile["id"]}"]')
    page.wait_for_selector("#job .history li")
    assert page.inner_text("#job-title") == HOSTILE
    page.click("#show-job")
    page.wait_for_timeout(300)
    bar = here.bars(name=HOSTILE)[0]
    page.mouse.move(bar["x"] + 2, bar["y"] + bar["height"] / 2)
    page.wait_for_selector("#tip:not([hidden])")
    assert page.inner_text("#tip b") == HOSTILE
    assert page.locator("img, #jobs script, #feed script, #job script").count() == 0
    assert here.complaints == []
    assert not any(url.endswith("/x") for url in here.asked)


def test_a_job_is_submitted_without_a_mouse(visit: Any) -> None:
    """Tab to the button, Enter, a name, Enter to check, Enter to submit; then Tab is back where it was."""
    here = visit()
    page = here.open()
    for _ in range(30):
        here.press("Tab")
        if page.evaluate("document.activeElement.id") == "new-job-button":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    here.press("Enter")
    page.wait_for_selector("#new-job[open]")
    page.keyboard.type("by-keys")
    here.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'submit-job'")
    here.press("Enter")
    here.wait_for_bars_of("by-keys")
    assert page.evaluate("document.activeElement.id") == "new-job-button"


def test_bars_on_a_machine_never_cover_each_other(visit: Any) -> None:
    """Random jobs that fill up to eight eighths of a machine: each slot of each is drawn once, none over another."""
    page = visit().open()
    rng = random.Random(7)
    free = {(machine, slot): 8 for machine in range(5) for slot in range(60)}
    given = []
    for k in range(400):
        machine, first, eighths = rng.randrange(5), rng.randrange(60), rng.choice([1, 1, 2, 3, 5])
        last = min(59, first + rng.randrange(12))
        if all(free[machine, slot] >= eighths for slot in range(first, last + 1)):
            given.append({"job": f"j{k}", "machine": machine, "first": first, "last": last, "share": eighths / 8})
            free |= {(machine, slot): free[machine, slot] - eighths for slot in range(first, last + 1)}
    lay = """async (bars) => {
      const { layBars } = await import("/static/bars.js");
      return layBars({ machines: ["a", "b", "c", "d", "e"], bars }).rows.flat();
    }"""
    drawn = [
        (bar["machine"], slot, eighth, bar["job"])
        for bar in page.evaluate(lay, given)
        for part in bar["parts"]
        for slot in range(part["first"], part["last"] + 1)
        for eighth in range(round(8 * part["bottom"]), round(8 * (part["bottom"] + bar["share"])))
    ]
    assert len(drawn) == sum(8 * b["share"] * (b["last"] - b["first"] + 1) for b in given)
    assert len({where[:3] for where in drawn}) == len(drawn)
    assert max(eighth for _, _, eighth, _ in drawn) == 7


def test_the_schedule_is_walked_by_arrows(visit: Any) -> None:
    """From bar to bar with arrows, each read out; Enter opens the job, Escape closes it."""
    here = visit()
    page = here.open()
    page.focus("#gantt-view canvas")
    here.press("ArrowRight")
    first = page.inner_text("#gantt-said")
    here.press("ArrowDown")
    assert first and page.inner_text("#gantt-said") != first
    here.press("Enter")
    page.wait_for_selector("#job[open] .facts")
    assert page.inner_text("#job-title") == page.inner_text("#gantt-said").split(",")[0]
    here.press("Escape")
    page.wait_for_selector("#job", state="hidden")


def test_a_job_is_cancelled_after_a_question(visit: Any) -> None:
    """No leaves it as it is; yes cancels it, and its row says so."""
    here = visit()
    job = here.server.submit("unwanted")
    page = here.open()
    page.click(f'#jobs .row[data-job="{job["id"]}"]')
    page.click("#cancel-job")
    here.press("Escape")
    assert here.server.get(f"/v1/jobs/{job['id']}")["state"] == "admitted"
    page.click("#cancel-job")
    page.click("#confirm-yes")
    page.wait_for_selector(f'#jobs .row[data-job="{job["id"]}"] .chip.cancelled')
    assert here.server.get(f"/v1/jobs/{job['id']}")["state"] == "cancelled"


def test_others_changes_arrive_by_themselves(visit: Any) -> None:
    """A job submitted elsewhere appears in Gantt, table and feed of a page that nobody touches."""
    here = visit()
    page = here.open()
    job = here.server.submit("from-elsewhere")
    here.wait_for_bars_of("from-elsewhere")
    page.wait_for_selector(f'#jobs .row[data-job="{job["id"]}"]')
    page.wait_for_selector("#feed li:has-text('from-elsewhere')")


def test_without_a_stream_of_events_the_log_is_asked(visit: Any) -> None:
    """Where a proxy breaks the stream, the page says that it polls, and still sees what happens."""
    here = visit()
    here.page.route("**/v1/events*", lambda route: route.abort())
    page = here.open(ready=False)
    page.wait_for_selector("#connection.polling")
    here.server.submit("seen-by-polling")
    here.wait_for_bars_of("seen-by-polling")


def test_a_server_that_comes_back_is_found_again(visit: Any, start: Callable[[int], Server]) -> None:
    """Stopped, the page says so; started again on the same store, it is live by itself and shows what is new."""
    restarted = start(2)
    restarted.submit("before")
    here = visit(at=restarted)
    page = here.open()
    restarted.end()
    page.wait_for_selector("#connection.lost")
    restarted.begin(port=int(urlsplit(restarted.url).port or 0))
    restarted.submit("after")
    here.wait_for_bars_of("after")
    page.wait_for_selector("#connection:is(.live, .polling)")
    page.wait_for_selector("#jobs .row:has-text('after')")


def test_the_clock_is_moved_by_its_button(visit: Any) -> None:
    here = visit()
    page = here.open()
    before = here.server.get("/v1/status")["now"]
    page.click("#advance button >> nth=0")
    page.wait_for_function("now => document.getElementById('now-slot').textContent === `slot ${now}`", arg=before + 1)
    assert here.server.get("/v1/status")["now"] == before + 1


def test_failed_checks_are_red_and_those_not_made_amber(visit: Any) -> None:
    """An invented certificate: one check of each outcome, the worst first, and the badge names the worst."""
    here = visit()
    outcomes = {"kept": True, "broken": False, "open": None}
    checks = [{"name": n, "value": 1.0, "limit": 0.0, "passed": p, "meaning": "m"} for n, p in outcomes.items()]
    invented = json.dumps({"passed": False, "checks": checks, "seq": 7})
    here.page.route("**/v1/certificate", lambda route: route.fulfill(body=invented, content_type="application/json"))
    page = here.open()
    page.wait_for_selector("#certificate-badge.failed")
    assert page.inner_text("#certificate-badge") == "1 check failed"
    names = page.eval_on_selector_all("#checks tr", "rows => rows.map((r) => [r.className, r.lastChild.textContent])")
    assert names == [["failed", "failed"], ["unmade", "not made"], ["passed", "passed"]]
    colour = "row => getComputedStyle(row.lastChild).color.match(/\\d+/g).map(Number)"
    red, amber, green = (page.eval_on_selector(f"#checks tr.{kind}", colour) for kind in ("failed", "unmade", "passed"))
    assert red[0] > 2 * red[1] and amber[0] > amber[1] > amber[2] and green[1] > green[0]


def test_ten_thousand_jobs_scroll_in_a_small_table(visit: Any, start: Callable[[int], Server]) -> None:
    """Scrolled to the oldest of 10,000 jobs, page by page: never 200 rows in the document, and the first job is there."""
    many = start(2)
    many.submit("first-of-all")
    fill(many, 9_999)
    here = visit(at=many)
    page = here.open()
    most = page.evaluate("""async () => {
      const jobs = document.getElementById("jobs");
      let most = 0;
      for (let k = 0; k < 3000 && !jobs.querySelector('[data-job="j1"]:not([hidden])'); k++) {
        jobs.scrollTop = jobs.scrollHeight;
        await new Promise((next) => setTimeout(next, 10));
        most = Math.max(most, jobs.querySelectorAll(".row").length);
      }
      return most;
    }""")
    assert 0 < most < 200
    assert page.inner_text('#jobs [data-job="j1"] .name b') == "first-of-all"
    assert page.inner_text("#jobs-count") == "10,000 jobs"
    page.click('#state-filter [data-state="admitted"]')
    page.wait_for_function("() => document.getElementById('jobs-count').textContent === '1 job'")
    page.click('#state-filter [data-state=""]')
    page.fill("#job-search", "too-wide-77")
    page.wait_for_function("() => document.getElementById('jobs-count').textContent === '111 jobs'")
    assert here.complaints == []


def test_who_has_no_token_is_asked_for_one(visit: Any, start: Callable[[int], Server]) -> None:
    """A wrong token is said to be wrong; with a reader's the page opens, without the buttons a reader may not press."""
    closed = start(2)
    closed.submit("of-the-house")
    make = closed.http.post("/v1/tokens", json={"name": "boss", "role": "admin"}).raise_for_status().json()
    boss = {"Authorization": f"Bearer {make['token']}"}
    reader = (
        closed.http.post("/v1/tokens", json={"name": "eve", "role": "read"}, headers=boss).raise_for_status().json()
    )
    here = visit(at=closed)
    page = here.open(ready=False)
    page.wait_for_selector("#login[open]")
    page.keyboard.type("guess")
    here.press("Enter")
    page.wait_for_function("() => document.getElementById('login-error').textContent !== ''")
    page.fill("#login [name=token]", reader["token"])
    here.press("Enter")
    here.wait_for_bars_of("of-the-house")
    assert page.inner_text("#who-name") == "eve"
    assert page.is_hidden("#new-job-button") and page.is_hidden("#advance") and page.is_hidden("#add-machine-button")
    page.wait_for_selector("#machines .row")
    assert page.locator("#machines button").count() == 0
    assert page.evaluate("document.cookie") == ""
