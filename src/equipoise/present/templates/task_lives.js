(() => {
  const lives = JSON.parse(document.getElementById("task_lives-data").textContent);
  const task = document.getElementById("task"), under = document.getElementById("site-policy");
  let charts = {};

  // Steps that are alike become one span; each is [from, to, lane, bottom, top] with its words for the tooltip.
  const spansOf = ([start, sent, ready, end, , , sends, given], lane, used) => {
    const spans = { sending: [], delayed: [], computing: [], idle: [], waiting: [] };
    const add = (kind, from, to, bottom, top, words) => {
      const last = spans[kind].at(-1);
      if (last && last.words === words && last.value[1] === from) last.value[1] = to;
      else spans[kind].push({ value: [from, to, lane, bottom, top], words });
    };
    [...sends].forEach((got, k) => {
      if (got === "1") add("sending", start + k, start + k + 1, 0, 0.55, "sending");
      else if (got === "d") add("delayed", start + k, start + k + 1, 0, 0.28, "delayed");
      else add("waiting", start + k, start + k + 1, 0, 0.14, "waiting to send, no bandwidth");
    });
    if (ready > sent) add("delayed", sent, ready, 0, 0.28, "delayed");
    given.forEach((x, k) => {
      const at = ready + k, spare = Math.min(lives.cap - x, lives.capacity - used[at]);
      const share = Math.min(x / lives.cap, 1);
      if (x > 0) add("computing", at, at + 1, 0, share, `computing, ${x} of ${lives.cap} samples per step`);
      else add("waiting", at, at + 1, 0, 0.14, "ready, but given no compute");
      if (spare > 0.05) {
        const bottom = Math.max(share, x > 0 ? 0 : 0.14);
        add("idle", at, at + 1, bottom, Math.max(bottom, share + spare / lives.cap),
          `${spare.toFixed(1)} idle samples per step it could have had`);
      }
    });
    for (const span of Object.values(spans).flat())
      span.name = `${span.words}: step ${span.value[0]}` + (span.value[1] - span.value[0] > 1 ? ` to ${span.value[1] - 1}` : "");
    return spans;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const upright = (at, formatter, align) => ({ xAxis: at, label: { formatter, align, position: "start" } });

  const drawLife = (one) => {
    const first = Math.max(0, one.arrival - 1), last = one.deadline + 1;
    const lanes = one.lives.map((life, k) => spansOf(life, k, lives.policies[k].used));
    const names = lives.policies.map(({ name }, k) => {
      const [, , , end, done, finished] = one.lives[k];
      return `${name}\n` + (done ? `done at step ${end}` : `${Math.min(99, Math.round(100 * finished))} % of its work`);
    });
    const ends = (wanted) => one.lives.flatMap(([, , , end, done], k) => done === wanted
      ? [{ value: [done ? end : one.deadline, k], name: done ? `done at step ${end}` : `not done by step ${one.deadline}` }] : []);
    const soft = colour("soft");
    const marks = {
      silent: true, symbol: "none", lineStyle: { color: soft, type: "dashed", width: 1.5 }, label: { color: soft },
      data: [upright(one.arrival, `arrives, ${one.arrival}`, "left"), upright(one.deadline, `deadline, ${one.deadline}`, "right")],
    };
    const kinds = ["sending", "delayed", "computing", "idle", "waiting"];
    const series = kinds.map((kind) => ({ data: lanes.flatMap((lane) => lane[kind]) }));
    charts.life.getDom().style.height = `${96 + 46 * names.length}px`;
    charts.life.resize();
    charts.life.setOption({
      xAxis: { min: first, max: last }, yAxis: { data: names, axisLabel: { width: charts.life.getWidth() < 500 ? 104 : 190 } },
      series: [...series, { data: ends(true), markLine: marks }, { data: ends(false) }],
    });
    const errors = one.lives.map(([, , ready, , , , , , seen]) => ({ data: seen.map((e, k) => [ready + k + 1, e > 0 ? e : null]) }));
    errors[0].markLine = {
      silent: true, symbol: "none", precision: 20, lineStyle: { color: soft, type: "dashed", width: 1.5 },
      label: { color: soft, formatter: `target ${one.target.toPrecision(3)}`, position: "insideStartTop", distance: 5 },
      data: [{ yAxis: one.target }],
    };
    charts.errors.setOption({ xAxis: { min: first, max: last }, series: errors });
  };

  const drawSite = (one) => {
    const site = lives.policies[under.value], [, , ready, end] = one.lives[under.value];
    const idle = site.used.map((x, k) => (site.computing[k] ? Math.max(0, lives.capacity - x) : 0));
    const ink = colour("ink"), top = lives.capacity;
    const bar = {
      silent: true, symbol: "none", lineStyle: { color: ink, width: 4, type: "solid" },
      label: { formatter: `task ${one.id} ready`, position: "middle", color: ink, distance: 4 },
      data: end > ready ? [[{ coord: [ready, top] }, { coord: [end - 1, top] }]] : [],
    };
    charts.site.setOption({
      series: [{ data: site.used, markLine: bar }, { data: idle },
        { data: site.computing }, { data: site.delayed }, { data: site.sending }],
    });
  };

  const draw = () => {
    const one = lives.tasks[task.value];
    document.querySelector(".story").textContent = one.story;
    drawLife(one);
    drawSite(one);
  };
  task.addEventListener("change", draw);
  under.addEventListener("change", () => drawSite(lives.tasks[task.value]));
  document.addEventListener("charts", (event) => {
    charts = event.detail;
    draw();
  });
})();
