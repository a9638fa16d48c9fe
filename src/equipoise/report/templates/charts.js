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
  const bands = (points) => {
    const total = points.find((p) => p.seriesName === "budget");
    const rest = points.filter((p) => p !== total).sort((a, b) => b.value[1] - a.value[1]);
    const lines = rest.slice(0, 8).map((p) => `${p.marker}${p.seriesName}: ${short(p.value[1])}`);
    if (rest.length > 8) lines.push(`and ${rest.length - 8} smaller`);
    const budget = total ? `, budget ${short(total.value[1])}` : "";
    return [`round ${points[0].value[0]}${budget}`, ...lines].join("<br>");
  };
  const formatters = { power, short, bits, bitsPointer, percent, bands };

  // "@name" in the data is a formatter above or a colour of the style sheet, which knows light from dark.
  const dressed = () => {
    const colours = getComputedStyle(document.documentElement);
    return JSON.parse(text, (_, v) =>
      typeof v === "string" && v.startsWith("@")
        ? (formatters[v.slice(1)] ?? colours.getPropertyValue("--" + v.slice(1)).trim())
        : v,
    );
  };
  const mounted = [];
  const options = dressed();
  for (const place of document.querySelectorAll("[data-chart]")) {
    const chart = echarts.init(place);
    chart.setOption(options[place.dataset.chart]);
    new ResizeObserver(() => chart.resize()).observe(place);
    mounted.push([chart, place.dataset.chart]);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    const again = dressed();
    for (const [chart, key] of mounted) chart.setOption(again[key], { notMerge: true });
  });
})();
