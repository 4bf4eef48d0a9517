// .chart[data-chart]: uPlot draws what the server's picture shows, from the table beside it (td[data-value] and the times of
// its rows; the table's data-until is where the last bar ends). Hovering tells the value of a bar, on all charts of the
// page; dragging over bars or clicking one chooses their range: ?from= and ?to=. Without this script, the picture and the
// table are all there is.
(() => {
  const { uPlot } = window;
  const { addressWith, dates } = window.adkweb;
  const HEIGHT = 48;
  const ROOM = 4; // around the line: a dot at the edge is whole
  const FILL = 0.16; // opacity of the area
  const LEAST = 60; // seconds of a range

  /** What a chart's table says: when its bars begin and where the last one ends, their values, and these in words. */
  function read(chart) {
    const table = chart.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    const starts = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    const cells = rows.map((row) => row.querySelector("td"));
    return {
      times: [...starts, Number(table.dataset.until)],
      values: cells.map((cell) => (cell.dataset.value ? Number(cell.dataset.value) : null)), // null: a gap
      words: cells.map((cell) => cell.textContent),
    };
  }

  /** The bars that are dragged over, the last one excluded; null if none are. */
  function dragged(plot, { values }) {
    const { left, width } = plot.select;
    if (width <= 0) return null;
    const [first, last] = [left, left + width].map((at) => Math.round(plot.posToVal(at, "x")));
    return [Math.max(first, 0), Math.min(last + 1, values.length)];
  }

  function tell(plot, told, tip) {
    const bar = plot.cursor.idx;
    tip.hidden = bar === null || bar === undefined || plot.cursor.left < 0;
    if (tip.hidden) return;
    const bars = dragged(plot, told);
    const range = dates.range(...(bars ?? [bar, bar + 1]).map((each) => new Date(told.times[each] * 1000)));
    tip.textContent = bars ? range : `${told.words[bar]} · ${range}`;
    const half = tip.offsetWidth / 2;
    const left = plot.valToPos(bar, "x") + ROOM;
    tip.style.left = `${Math.max(half, Math.min(left, plot.width - half))}px`;
  }

  /** Goes to the same page with the range of some bars. */
  function choose([first, end], { times }) {
    const [from, to] = [Math.floor(times[first]), Math.ceil(times[end])];
    if (to - from < LEAST) return;
    location.assign(addressWith({ range: "", from, to }));
  }

  /** The bars without a neighbour, which no line shows: each is a point. */
  function alone(plot) {
    const values = plot.data[1];
    const isGap = (bar) => (values[bar] ?? null) === null;
    return values.flatMap((value, bar) => (value !== null && isGap(bar - 1) && isGap(bar + 1) ? [bar] : []));
  }

  function draw(chart) {
    const told = read(chart);
    const box = chart.querySelector(".plot");
    const tip = chart.querySelector(".tip");
    const color = () => getComputedStyle(box).color;
    const shade = () => color().replace(/^rgb\((.*)\)$/, `rgba($1, ${FILL})`);
    const most = Math.max(...told.values, 0);
    const isWhole = !told.values.includes(null); // between gaps, an area would be a wall
    const options = {
      width: box.clientWidth,
      height: HEIGHT,
      padding: [ROOM, ROOM, ROOM, ROOM],
      legend: { show: false },
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: false }, y: { range: [0, most || 1] } },
      series: [
        {},
        { stroke: color, fill: isWhole && shade, width: 1.5, points: { size: 6, fill: color, filter: alone } },
      ],
      cursor: { y: false, sync: { key: "figures" }, drag: { x: true, y: false, setScale: false, dist: 5 } },
      hooks: {
        setCursor: [(plot) => tell(plot, told, tip)],
        setSelect: [(plot) => plot.cursor.event && plot.select.width > 0 && choose(dragged(plot, told), told)],
      },
    };
    const plot = new uPlot(options, [told.values.map((_, bar) => bar), told.values], box);
    plot.over.addEventListener("click", ({ detail }) => {
      const bar = plot.cursor.idx;
      if (detail && bar !== null && bar !== undefined && plot.select.width <= 0) choose([bar, bar + 1], told);
    });
    chart.classList.add("drawn");
    new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
    return plot;
  }

  const plots = [...document.querySelectorAll("[data-chart]")].map(draw);
  function redraw() {
    for (const plot of plots) plot.redraw();
  }
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
