(() => {
  const text = document.getElementById("chart-data").textContent;
  const superscript = (k) => String(k).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  const power = (v) => {
    const k = Math.round(Math.log10(v));
    return Math.abs(k) < 3 ? String(Number(v.toPrecision(6))) : "10" + superscript(k);
  };
  const short = (v) => {
    if (v === null || v === undefined || v === "") return "–";
    const size = Math.abs(v);
    return size !== 0 && (size < 1e-3 || size >= 1e7)
      ? v.toExponential(2)
      : v.toLocaleString("en", { maximumSignificantDigits: 4 });
  };
  const bits = (v) => {
    const k = Math.max(0, Math.min(5, Math.floor(Math.log10(Math.max(v, 1)) / 3 + 1e-9)));
    return Number((v / 1000 ** k).toPrecision(3)) + " " + ["", "k", "M", "G", "T", "P"][k] + "bit";
  };
  const bitsPointer = (at) => bits(at.value) + " sent";
  const percent = (v) => Number((100 * v).toPrecision(4)) + " %";
  const safe = (words) => words.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  // The values of all series at one place, the largest first; of lying bars, those of one name.
  const forms = { short, power, bits, percent };
  const told = (p, k, form) => {
    const error = p.value[2] && !p.value[3] ? ` ± ${p.value[2].toLocaleString("en", { maximumSignificantDigits: 2 })}` : "";
    const dot = `display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:5px;background:${p.borderColor ?? p.color}`;
    return `<span style="${dot}"></span>${safe(p.seriesName)}: ${forms[form](p.value[k])}${error}`;
  };
  const listedAt = ({ point, whole, form, most, lying }) => (points) => {
    const k = lying ? 0 : 1;
    const there = points.filter((p) => p.seriesType !== "custom" && p.seriesName && typeof p.value[k] === "number" && (!lying || p.value[k] || points.length === 1));
    there.sort((a, b) => b.value[k] - a.value[k]);
    const lines = there.slice(0, most).map((p) => told(p, k, form));
    if (there.length > most) lines.push(`and ${there.length - most} smaller`);
    const first = points[0], number = whole ? Math.round : short;
    const at = first.axisType?.endsWith("category") ? first.name : number(first.axisValue);
    const head = lying ? safe(first.name) : safe(point.replace("{value}", at));
    return lines.length ? [head, ...lines].join("<br>") : lying ? [head, "none"].join("<br>") : "";
  };
  const one = ({ form, lying }) => (p) => (p.data.tip ? safe(p.data.tip) : told(p, lying ? 0 : 1, form));
  const againstStep = (points) => {
    const there = points.filter((p) => p.seriesType === "line" && typeof p.value[1] === "number");
    const lines = there.sort((a, b) => b.value[1] - a.value[1]).map((p) => told(p, 1, "short"));
    return lines.length ? [`after step ${points[0].value[0] - 1}`, ...lines].join("<br>") : "";
  };
  const siteAt = (points) =>
    [`step ${points[0].name}`, ...points.map((p) => `${p.marker}${p.seriesName}: ${short(p.value)}`)].join("<br>");
  // A standard error either side of a value, upright or (fourth value 1) lying.
  const whisker = (_, api) => {
    const [x, y, error, lying] = [0, 1, 2, 3].map((k) => api.value(k));
    const [x1, y1] = api.coord(lying ? [x - error, y] : [x, y - error]);
    const [x2, y2] = api.coord(lying ? [x + error, y] : [x, y + error]);
    const stroke = { stroke: api.visual("color"), lineWidth: 1.5 };
    const bar = (a, b, c, d) => ({ type: "line", shape: { x1: a, y1: b, x2: c, y2: d }, style: stroke });
    const caps = lying
      ? [bar(x1, y1 - 4, x1, y1 + 4), bar(x2, y2 - 4, x2, y2 + 4)]
      : [bar(x1 - 4, y1, x1 + 4, y1), bar(x2 - 4, y2, x2 + 4, y2)];
    return { type: "group", children: [bar(x1, y1, x2, y2), ...caps] };
  };
  // Steps [from, to) in a lane, between two heights of it.
  const span = (_, api) => {
    const [from, to, lane, bottom, top] = [0, 1, 2, 3, 4].map((k) => api.value(k));
    const [x1, x2] = [from, to].map((x) => Math.round(api.coord([x, lane])[0])); // whole pixels: no seams
    const middle = api.coord([from, lane])[1];
    const tall = 0.72 * api.size([0, 1])[1];
    const shape = { x: x1, y: middle + tall * (0.5 - top), width: x2 - x1, height: tall * (top - bottom) };
    return { type: "rect", shape, style: { fill: api.visual("color") } };
  };
  const exact = (v) => (Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : short(v));
  const barValue = ({ k }) => (p) => exact(p.value[k]);
  const formatters = {
    power, short, bits, bitsPointer, percent, againstStep, siteAt, whisker, span,
  };

  const withArguments = { listed: listedAt, one, barValue };

  // "@name" in the data is a formatter above or a colour of the style sheet, which knows light from dark; "@name {...}" is
  // a formatter with arguments, "@#…|#…" a colour for each. Any other text stays as it is.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const dressed = () => {
    const colours = getComputedStyle(document.documentElement);
    return JSON.parse(text, (_, v) => {
      if (typeof v !== "string" || !v.startsWith("@")) return v;
      const pair = v.match(/^@(#[0-9a-f]{6})\|(#[0-9a-f]{6})$/);
      if (pair) return pair[dark.matches ? 2 : 1];
      const call = v.match(/^@(\w+) (\{.*\})$/);
      if (call && withArguments[call[1]]) return withArguments[call[1]](JSON.parse(call[2]));
      return formatters[v.slice(1)] ?? (colours.getPropertyValue("--" + v.slice(1)).trim() || v);
    });
  };
  // A band is drawn as the outline it is: a logarithmic axis cannot stack areas.
  const outlined = (option) => {
    for (const series of Array.isArray(option.series) ? option.series : [])
      if (series.outline)
        series.renderItem = (_, api) => ({
          type: "polygon", shape: { points: series.outline.map((point) => api.coord(point)) },
          style: { fill: api.visual("color"), opacity: 0.13 },
        });
    return option;
  };
  // Buttons of a legend hide and show a name in every chart that has it.
  const buttons = [...document.querySelectorAll("[data-hides]")];
  const hide = (button) => {
    const name = button.dataset.hides;
    const type = button.getAttribute("aria-pressed") === "true" ? "legendSelect" : "legendUnSelect";
    for (const [chart] of mounted)
      if (chart.getOption().series.some((series) => series.name === name)) chart.dispatchAction({ type, name });
  };
  for (const button of buttons)
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      hide(button);
    });
  const mounted = [];
  const tell = () =>
    document.dispatchEvent(
      new CustomEvent("charts", { detail: Object.fromEntries(mounted.map(([chart, key]) => [key, chart])) }),
    );
  const options = dressed();
  for (const place of document.querySelectorAll("[data-chart]")) {
    const chart = echarts.init(place);
    chart.setOption(outlined(options[place.dataset.chart]));
    new ResizeObserver(() => chart.resize()).observe(place);
    mounted.push([chart, place.dataset.chart]);
  }
  tell();
  dark.addEventListener("change", () => {
    const again = dressed();
    for (const [chart, key] of mounted) chart.setOption(outlined(again[key]), { notMerge: true });
    tell();
    buttons.forEach(hide);
  });
})();
