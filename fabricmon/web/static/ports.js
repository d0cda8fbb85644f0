// The list of ports, and one port with plots of its counters and ratios. Each plot has its table.
import { html, useEffect, useMemo, useRef, useState, useApi, clock, percent, scaled, theme, PortName, Problem, Table } from "./lib.js";

const PAGE = 100;
const SORTS = [["stall", "stall ratio"], ["score", "anomaly score"], ["press", "pressure"], ["tx_use", "sending"], ["rx_use", "receiving"], ["name", "name"]];

export function PortsView({ fabric, version, route }) {
  const [q, setQ] = useState("");
  const [sort, setSort] = useState("stall");
  const [offset, setOffset] = useState(0);
  const device = route.query.device ?? "";
  const { data, error } = useApi("ports", { fabric, q, sort, offset, device, limit: PAGE }, version, true);
  const change = (set) => (event) => { set(event.target.value); setOffset(0); };
  return html`<h1>Ports${device && ` of ${device}`}</h1><${Problem} error=${error} />
    <div class="filters">
      <label>Name has <input type="search" value=${q} onInput=${change(setQ)} /></label>
      <label>Sorted by <select value=${sort} onChange=${change(setSort)}>${SORTS.map(([key, title]) => html`<option value=${key}>${title}</option>`)}</select></label>
      ${device && html`<a href="#/ports">all devices</a>`}
    </div>
    ${data && html`<${Table} caption=${`${data.total} ports, ${data.ports.length ? `${offset + 1} to ${offset + data.ports.length}` : "none"} shown`} rows=${data.ports} empty="no port has that name" columns=${[
      ["Port", (p) => html`<${PortName} fabric=${fabric} device=${p.device} port=${p.port} />`],
      ["Peer", (p) => (p.peer_device ? html`<${PortName} fabric=${fabric} device=${p.peer_device} port=${p.peer_port} />` : "unknown")],
      ["Stall", (p) => (p.estimated ? "about " : "") + percent(p.stall), true], ["Pressure", (p) => percent(p.press), true],
      ["Sending", (p) => percent(p.tx_use), true], ["Receiving", (p) => percent(p.rx_use), true],
      ["Score", (p) => (p.score == null ? "unknown" : p.score.toFixed(2)) + (p.alarm ? " !" : ""), true],
      ["Speed", (p) => scaled(p.speed_bps, "b/s"), true], ["Age", (p) => (p.age_s == null ? "never read" : `${p.age_s.toFixed(0)} s`), true]]} />
    <p><button disabled=${offset === 0} onClick=${() => setOffset(Math.max(0, offset - PAGE))}>Previous</button>
      <button disabled=${offset + PAGE >= data.total} onClick=${() => setOffset(offset + PAGE)}>Next</button></p>`}`;
}

const RATIOS = ["stall", "press", "tx_use", "rx_use"];
// Counters that belong on one plot, by what they are called.
const GROUPS = [
  ["Bytes a second", /bytes$/], ["Packets a second", /_packets(\[|$)/], ["Pause frames a second", /(pause|pfc)_frames/],
  ["Waiting, ns or ticks a second", /wait|pfc_ns/], ["Loss and errors a second", /discard|error|dropped|overrun|fec|downed|recover|out_of|timeout|retrans|rnr/], ["Other, a second", /./],
];

function grouped(rates) {
  const plots = new Map();
  for (const [name, values] of Object.entries(rates)) {
    if (name === "times") continue;
    const [title] = GROUPS.find(([, pattern]) => pattern.test(name.replace(/\[.*/, "")));
    if (!plots.has(title)) plots.set(title, []);
    plots.get(title).push([name, values]);
  }
  return GROUPS.filter(([title]) => plots.has(title)).map(([title]) => [title, plots.get(title).slice(0, 8)]);
}

export function PortView({ fabric, device, port, version }) {
  const { data, error } = useApi("port", { fabric, device, port }, version);
  if (!data) return html`<h1>${device} [${port}]</h1><${Problem} error=${error} />`;
  const ratios = RATIOS.filter((name) => data.signals[name]).map((name) => [name, data.signals[name]]);
  return html`<h1>${device} [${port}]</h1><${Problem} error=${error} />
    <dl>
      <dt>Peer</dt><dd>${data.peer_device ? html`<${PortName} fabric=${fabric} device=${data.peer_device} port=${data.peer_port} />` : "unknown"}</dd>
      <dt>Faces</dt><dd>${{ host: "it is a host's", down: "a host", up: "a higher tier", across: "a lower tier or its own" }[data.role] ?? "unknown"}</dd>
      <dt>Link</dt><dd>${data.technology}, ${scaled(data.speed_bps, "b/s")}</dd>
      <dt>Stall ratio</dt><dd>${percent(data.stall)}${data.estimated ? `, estimated between ${percent(data.stall_low)} and ${percent(data.stall_high)}` : ""}</dd>
      <dt>Anomaly score</dt><dd>${data.score == null ? "unknown" : data.score.toFixed(2)}${data.why.length ? `, because of ${data.why.join(", ")}` : ""}</dd>
      <dt>Read</dt><dd>${clock(data.time)}${data.age_s ? `, ${data.age_s.toFixed(0)} s old` : ""}</dd>
    </dl>
    <div class="plots">
      ${ratios.length > 0 && html`<${Plot} title="Share of the time" times=${data.signals.times} series=${ratios} format=${percent} max=${1} />`}
      ${grouped(data.rates).map(([title, series]) => html`<${Plot} key=${title} title=${title} times=${data.rates.times} series=${series} format=${(v) => scaled(v)} />`)}
    </div>
    <h2>Counters</h2>
    <${Table} caption="As of the last tick; a rate that is not known says why" rows=${[...data.counters].sort((a, b) => (a.total == null) - (b.total == null))} columns=${[
      ["Counter", (c) => html`<span title=${c.help}>${c.counter}</span>`], ["Queue", (c) => c.queue ?? "", true], ["Total", (c) => (c.total == null ? "" : c.total.toLocaleString("en")), true],
      ["A second", (c) => (c.rate == null ? c.state : scaled(c.rate)), true], ["Unit", (c) => c.unit], ["State", (c) => c.state], ["What it is", (c) => c.help]]} />
    <${Table} caption="Levels" rows=${Object.entries(data.gauges).filter(([, v]) => v != null)} empty="none are read" columns=${[["Level", ([name]) => name], ["Value", ([, v]) => scaled(v), true]]} />`;
}

const hms = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#777777"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2], [10, 4], [4, 4], [12, 3]];

// A hole in which nobody was read is a hole in the line: one empty moment after each side of it.
function broken(rows) {
  const [times] = rows;
  const steps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const longest = 3 * (steps[steps.length >> 1] ?? 0);
  const out = rows.map(() => []);
  times.forEach((time, i) => {
    if (i > 0 && time - times[i - 1] > longest) out.forEach((row, k) => row.push(k === 0 ? times[i - 1] + longest / 3 : null));
    out.forEach((row, k) => row.push(rows[k][i]));
  });
  return out;
}

function Plot({ title, times, series, format, max }) {
  const box = useRef(null);
  const [flip, setFlip] = useState(0);
  const shape = series.map(([name]) => name).join();
  const chart = useRef(null);
  const data = useMemo(() => broken([times, ...series.map(([, values]) => values)]), [times, series]);
  useEffect(() => {
    const again = () => setFlip((n) => n + 1);
    addEventListener("themechange", again);
    return () => removeEventListener("themechange", again);
  }, []);
  useEffect(() => {
    const axis = { stroke: theme("--dim"), grid: { stroke: theme("--line"), width: 1 }, ticks: { stroke: theme("--line") } };
    chart.current = new uPlot({
      width: box.current.clientWidth, height: 190, cursor: { drag: { x: false, y: false } }, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "UTC"),
      scales: { y: { range: (u, low, high) => [0, max ?? Math.max(high || 0, 1) * 1.05] } },
      axes: [{ ...axis, space: 70, values: (u, ticks) => ticks.map(hms) }, { ...axis, size: 64, values: (u, ticks) => ticks.map(format) }],
      series: [{ value: (u, v) => (v == null ? "" : hms(v)) }, ...series.map(([name], i) => ({ label: name, stroke: COLOURS[i], dash: DASHES[i], width: 2, points: { show: times.length < 3 }, value: (u, v) => (v == null ? "" : format(v)) }))],
    }, data, box.current);
    const fit = new ResizeObserver(() => chart.current?.setSize({ width: box.current.clientWidth, height: 190 }));
    fit.observe(box.current);
    return () => { fit.disconnect(); chart.current.destroy(); chart.current = null; };
  }, [shape, flip]);
  useEffect(() => { chart.current?.setData(data); }, [data]);
  const rows = times.map((time, i) => [time, ...series.map(([, values]) => values[i])]).slice(-60).reverse();
  return html`<section class="plot"><h3>${title}</h3><div ref=${box} role="img" aria-label=${`Plot: ${title}; the table below has its values`}></div>
    <details><summary>As a table</summary><${Table} caption=${title} rows=${rows} columns=${[
      ["Time", (row) => hms(row[0])], ...series.map(([name], i) => [name, (row) => format(row[i + 1]), true])]} /></details></section>`;
}
