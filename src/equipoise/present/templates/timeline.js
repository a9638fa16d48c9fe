(() => {
  const timeline = JSON.parse(document.getElementById("timeline-data").textContent);
  const choice = document.getElementById("shown-policy");
  const safe = (words) => String(words).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const short = (v) => (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e7)
    ? v.toExponential(2) : v.toLocaleString("en", { maximumSignificantDigits: 3 }));
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const slotsOf = (first, last) => (last - first === 1 ? `slot ${first}` : `slots ${first} to ${last - 1}`);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const hue = (job) => `hsl(${Math.round(job * 137.508) % 360}, ${job % 3 === 0 ? 45 : 58}%, ${56 + 7 * (job % 2)}%)`;
  const rows = timeline.machines.length;
  const tall = Math.max(14, Math.min(64, Math.round(460 / rows))) * rows;
  let charts = {};

  // A bar is [job, row, first, last, workers, servers, spread, bottom, height], the last two in thousandths of its row.
  const bar = (pale) => (_, api) => {
    const [job, row, first, last, , , , bottom, height] = [0, 1, 2, 3, 4, 5, 6, 7, 8].map((k) => api.value(k));
    const x1 = Math.round(api.coord([first, row])[0]), x2 = Math.round(api.coord([last, row])[0]);
    const whole = 0.86 * api.size([0, 1])[1], base = api.coord([first, row])[1] + whole / 2;
    const y1 = base - (whole * (bottom + height)) / 1000, y2 = base - (whole * bottom) / 1000;
    const gap = x2 - x1 > 5 ? 1 : 0, seam = y2 - y1 > 4 ? 0.5 : 0;
    const shape = { x: x1, y: y1, width: Math.max(1, x2 - x1 - gap), height: Math.max(1, y2 - y1 - seam) };
    const name = timeline.jobs[job];
    const room = shape.width > 6.4 * name.length + 6 && shape.height > 12;
    return {
      type: "rect", shape, style: { fill: hue(job), opacity: pale.has(job) ? 0.35 : 1 },
      textContent: room ? { style: { text: name, fill: pale.has(job) ? colour("ink") : "#0f141b", fontSize: 10 } } : false, // false also takes away what a bar drawn before had
      textConfig: { position: "inside" },
    };
  };
  const barTip = (policy, pale) => ({ value }) => {
    const [job, row, first, last, workers, servers, spread] = value;
    return [
      `<b>job ${safe(timeline.jobs[job])}</b>`,
      `on ${safe(timeline.machines[row])}, ${slotsOf(first, last)}`,
      many(workers, "worker") + (servers ? `, ${many(servers, "server")}` : "") + " here",
      spread ? "spread over several machines" : "together on one machine",
      pale.has(job) ? `not finished under ${safe(policy)}` : `finished under ${safe(policy)}`,
    ].join("<br>");
  };

  // A window of the calendar is [row, first, last, part of the machine, kind]: from the top of the row.
  const closed = ({ dataIndex }, api) => {
    const [row, first, last, part, kind] = timeline.windows[dataIndex];
    const [x1, x2] = [first, last].map((x) => Math.round(api.coord([x, row])[0]));
    const whole = 0.86 * api.size([0, 1])[1], y = api.coord([first, row])[1] - whole / 2;
    const room = x2 - x1 > 6.4 * kind.length + 6 && whole * part > 12;
    return {
      type: "rect", shape: { x: x1, y, width: Math.max(1, x2 - x1), height: Math.max(2, whole * part) },
      style: { fill: colour("rule"), stroke: colour("soft"), lineDash: [3, 3] },
      textContent: room ? { style: { text: kind, fill: colour("ink"), fontSize: 10 } } : false,
      textConfig: { position: "inside" },
    };
  };
  const closedTip = ([row, first, last, part, kind]) =>
    `<b>${safe(kind)}</b><br>${Math.round(100 * part)} % of ${safe(timeline.machines[row])}, ${slotsOf(first, last)}`;

  const drawGantt = ({ policy, bars, unfinished }) => {
    const pale = new Set(unfinished);
    charts.gantt.getDom().style.height = `${tall + (charts.gantt.getOption().dataZoom?.length ? 96 : 62)}px`;
    charts.gantt.resize();
    charts.gantt.setOption({
      xAxis: { min: timeline.first, max: timeline.last }, yAxis: { data: timeline.machines },
      tooltip: { formatter: (at) => (at.seriesIndex ? closedTip(at.value) : barTip(policy, pale)(at)) },
      series: [{ renderItem: bar(pale), data: bars }, { renderItem: closed, data: timeline.windows }],
    });
  };

  // Equal neighbours of a machine's row become one cell: [first, last, row, place on the scale, value].
  const cellsOf = (cells, place) => cells.flatMap((row, y) => {
    const found = [];
    row.forEach((v, x) => {
      const last = found.at(-1);
      if (last && last[4] === v) last[1] += 1;
      else found.push([timeline.first + x, timeline.first + x + 1, y, place(v), v]);
    });
    return found;
  });
  const cell = (_, api) => {
    const [first, last, row] = [0, 1, 2].map((k) => api.value(k));
    const high = api.size([0, 1])[1], y = api.coord([first, row])[1];
    const [x1, x2] = [first, last].map((x) => Math.round(api.coord([x, row])[0])); // whole pixels: no seams
    const [y1, y2] = [Math.round(y - high / 2), Math.round(y + high / 2)];
    return { type: "rect", shape: { x: x1, y: y1, width: x2 - x1, height: y2 - y1 }, style: { fill: api.visual("color") } };
  };
  const drawHeat = ({ heat, cells }) => {
    const seen = cells.flat().filter((v) => v !== null);
    const used = heat === "use";
    const [low, high] = used ? [0, 1] : seen.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, 0]);
    const far = !used && low > 0 && high > 100 * low;
    const place = (v) => (v === null ? null : far ? Math.log10(v) : v);
    const shown = (v) => (v === null ? "more than can be said" : used ? `${Number((100 * v).toPrecision(3))} %` : short(v));
    charts.heat.getDom().style.height = `${tall + 90}px`;
    charts.heat.resize();
    charts.heat.setOption({
      xAxis: { min: timeline.first, max: timeline.last }, yAxis: { data: timeline.machines },
      visualMap: {
        min: place(low), max: high > low ? place(high) : place(low) + 1,
        text: [shown(high) + (used ? " used" : " per slot") + (far ? " (logarithmic)" : ""), shown(low)],
      },
      tooltip: { formatter: ({ value: [first, last, row, , v] }) =>
        `${safe(timeline.machines[row])}, ${slotsOf(first, last)}<br>` +
        shown(v) + (used ? " of its fullest resource in use" : " a slot for all of it") },
      series: [{ renderItem: cell, data: cellsOf(cells, place) }],
    });
    const title = charts.heat.getDom().closest("figure").querySelector("h2");
    title.textContent = used ? "Use of every machine by slot" : "Price of every machine by slot";
  };

  const drawUse = ({ times, use, end }) => {
    const window = { silent: true, itemStyle: { color: colour("rule"), opacity: 0.6 },
      data: timeline.last - timeline.first < end ? [[{ xAxis: timeline.first }, { xAxis: timeline.last }]] : [] };
    charts.use.setOption({
      grid: { top: 26 },
      xAxis: {
        min: 0, max: end, axisLabel: { showMaxLabel: false }, // the end is not round
        axisPointer: { label: { formatter: "slot {value}" } },
      },
      series: use.map((column, k) => ({
        data: [...column.map((v, n) => [times[n], v]), [end, column.at(-1) ?? null]],
        ...(k ? {} : { markArea: window }),
      })),
    });
  };

  const draw = () => {
    const one = timeline.policies[choice.value];
    document.querySelector(".story").textContent = one.story;
    drawGantt(one);
    drawHeat(one);
    drawUse(one);
  };
  choice.addEventListener("change", draw);
  document.addEventListener("charts", (event) => {
    charts = event.detail;
    draw();
  });
})();
