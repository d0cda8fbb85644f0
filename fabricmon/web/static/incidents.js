// Incidents: what happened, who started it, who suffers, what to do.
import { html, useMemo, useState, useApi, api, clock, duration, link, percent, scaled, PortName, Problem, Severity, Table } from "./lib.js";
import { layout } from "./layout.js";

const WHOSE = { fabric: "It is the fabric", host: "It is a host", config: "It is the configuration", telemetry: "It is the telemetry", "not-fabric": "It is not the fabric" };
const portText = (one) => (one ? (one.port ? `${one.device} [${one.port}]` : one.device) : "no port can be named");

const measured = (value, unit) => (/^(ratio|share)/.test(unit) ? `${percent(value)}${unit.replace(/^(ratio|share)/, "")}` : scaled(value, unit));

export function verdictLine(incident) {
  const count = incident.victims.length;
  const who = count === 0 ? "nobody is held back" : `${count} port${count === 1 ? " is" : "s are"} held back`;
  return `${WHOSE[incident.verdict]}: ${incident.kind}${incident.reason ? ` (${incident.reason})` : ""} at ${portText(incident.cause)}; ${who}.`;
}

export function Cards({ incidents }) {
  if (!incidents.length) return html`<p class="dim">No incident.</p>`;
  return html`<ul class="cards">${incidents.map((one) => html`
    <li class=${`${one.severity} ${one.state}`}>
      <a href=${link("incident", one.id)}><strong>${one.kind}</strong></a> <${Severity} incident=${one} />
      ${one.state !== "open" && html` <span class="tag">${one.state}</span>`}
      ${one.maintenance && html` <span class="tag">maintenance</span>`}
      ${one.acknowledged && html` <span class="tag">seen by ${one.acknowledged.by}</span>`}
      <div><${PortName} fabric=${one.fabric} device=${one.cause?.device} port=${one.cause?.port} />, ${one.victims.length} held back</div>
      <div class="dim">since ${clock(one.started_at)}</div>
    </li>`)}</ul>`;
}

export function IncidentsView({ version, status, fabric, route }) {
  const { data, error } = useApi("incidents", { limit: 100 }, version);
  const columns = [
    ["Incident", (one) => html`<a href=${link("incident", one.id)}>${one.kind}</a>`],
    ["Severity", (one) => html`<${Severity} incident=${one} />`],
    ["State", (one) => one.state + (one.maintenance ? ", maintenance" : "")],
    ["Verdict", (one) => one.verdict],
    ["Fabric", (one) => one.fabric],
    ["Cause", (one) => html`<${PortName} fabric=${one.fabric} device=${one.cause?.device} port=${one.cause?.port} />`],
    ["Victims", (one) => one.victims.length, true],
    ["Lost", (one) => scaled(one.lost_bytes, "B"), true],
    ["Since", (one) => clock(one.started_at)],
    ["Until", (one) => (one.ended_at ? clock(one.ended_at) : "now")],
  ];
  return html`<h1>Incidents</h1><${Problem} error=${error} />
    ${data && html`<${Table} caption=${`Open ones first, worst on top${data.length === 100 ? "; these are the first hundred, the API has all" : ""}`} columns=${columns} rows=${data} empty="none" />`}
    <${Maintenance} version=${version} may=${status?.may_write} fabric=${fabric} at=${route.query} />`;
}

function Maintenance({ version, may, fabric, at }) {
  const [bump, setBump] = useState(0);
  const [error, setError] = useState(null);
  const { data } = useApi("maintenance", {}, version + bump);
  const write = (path, options) => api(path, {}, options)
    .then(() => { setError(null); setBump(bump + 1); return true; }).catch((e) => { setError(e.message); return false; });
  const columns = [
    ["Where", (w) => `${w.fabric ? `${w.fabric}: ` : ""}${portText(w)}`], ["From", (w) => clock(w.start)], ["To", (w) => clock(w.end)],
    ["Why", (w) => w.comment], ["Declared by", (w) => w.author || "the config"],
    ["", (w) => may && w.author !== "config" && html`<button onClick=${() => write(`maintenance/${w.id}`, { method: "DELETE" })} aria-label=${`Withdraw the window of ${portText(w)}`}>Withdraw</button>`],
  ];
  return html`<h2 id="maintenance">Maintenance</h2>
    <${Table} caption="Incidents there are kept and marked, alerts are not fired" rows=${data ?? []} columns=${columns} empty="none declared" />
    <${Problem} error=${error} />
    ${may ? html`<${Declare} key=${`${at.device}[${at.port}]`} fabric=${fabric} at=${at} send=${(body) => write("maintenance", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })} />`
      : html`<p class="dim">To declare maintenance here, set up users in the web config file.</p>`}`;
}

const minute = (ms) => new Date(ms).toISOString().slice(0, 16);

function Declare({ fabric, at, send }) {
  const blank = () => ({ device: at.device ?? "", port: at.port ?? "", start: minute(Date.now()), end: minute(Date.now() + 7200e3), comment: "" });
  const [form, setForm] = useState(blank);
  const field = (name, more) => html`<input ...${more} value=${form[name]} onInput=${(e) => setForm({ ...form, [name]: e.target.value })} />`;
  const submit = (event) => {
    event.preventDefault();
    send({ ...form, fabric, start: `${form.start}:00Z`, end: `${form.end}:00Z` }).then((done) => done && setForm(blank()));
  };
  return html`<form class="filters" aria-label="Declare maintenance" onSubmit=${submit}>
    <label>Device ${field("device", { required: true, maxlength: 256 })}</label>
    <label>Port (empty: all) ${field("port", { maxlength: 256 })}</label>
    <label>From, UTC ${field("start", { type: "datetime-local", required: true })}</label>
    <label>To, UTC ${field("end", { type: "datetime-local", required: true })}</label>
    <label>Why ${field("comment", { maxlength: 1000 })}</label>
    <button>Declare</button></form>`;
}

export function IncidentView({ id, version, status }) {
  const [bump, setBump] = useState(0);
  const { data, error } = useApi(`incidents/${encodeURIComponent(id)}`, {}, version + bump);
  if (!data) return html`<h1>Incident</h1><${Problem} error=${error} />`;
  const { cause, fabric } = data;
  return html`<h1>${data.kind} at ${portText(cause)}</h1>
    <p class="verdict bad">${verdictLine(data)} <strong>${data.advice}</strong></p>
    <${Problem} error=${error} />
    <dl>
      <dt>Severity</dt><dd><${Severity} incident=${data} /> ${data.state}${data.maintenance ? ", under maintenance" : ""}</dd>
      <dt>Time</dt><dd>${clock(data.started_at)} to ${data.ended_at ? clock(data.ended_at) : "now"}</dd>
      <dt>Cause</dt><dd><${PortName} fabric=${fabric} device=${cause?.device} port=${cause?.port} />${cause?.queue != null ? `, queue ${cause.queue}` : ""}</dd>
      ${cause?.peer_device && html`<dt>Its peer</dt><dd><${PortName} fabric=${fabric} device=${cause.peer_device} port=${cause.peer_port} /></dd>`}
      <dt>Confidence</dt><dd>${percent(data.confidence)}</dd>
      <dt>Cost</dt><dd>${scaled(data.lost_bytes, "B")} not sent, ${duration(data.stalled_port_seconds)} of port time</dd>
    </dl>
    <${Acknowledge} incident=${data} may=${status?.may_write} done=${() => setBump(bump + 1)} />
    ${status?.may_write && cause && html`<p><a href=${`${link("incidents")}?${new URLSearchParams({ device: cause.device, port: cause.port ?? "" })}`}>Declare maintenance there</a></p>`}
    <h2>Evidence</h2>
    <${Table} caption="What was measured, and what a healthy port shows" rows=${data.evidence} columns=${[
      ["Measured", (e) => e.counter], ["Where", (e) => html`<${PortName} fabric=${fabric} device=${e.device} port=${e.port} />`],
      ["Value", (e) => measured(e.value, e.unit), true], ["Healthy", (e) => e.expected], ["Source", (e) => e.source], ["How", (e) => html`<${Proof} evidence=${e} />`]]} />
    <h2>Pressure tree</h2>
    <${Tree} incident=${data} />
    <${Table} caption="Ports held back, hardest first" rows=${[...data.victims].sort((a, b) => b.stall_ratio - a.stall_ratio)} columns=${[
      ["Port", (v) => html`<${PortName} fabric=${fabric} device=${v.device} port=${v.port} />`], ["Stall ratio", (v) => percent(v.stall_ratio), true]]} />
    <${Table} caption="Jobs" rows=${data.jobs} empty="no job is known to run here" columns=${[
      ["Job", (j) => j.name], ["Stalled GPU time", (j) => duration(j.stalled_gpu_seconds), true]]} />
    <${Table} caption="Causes that were considered" rows=${data.causes_ranked} columns=${[
      ["Port", (c) => html`<${PortName} fabric=${fabric} device=${c.device} port=${c.port} />`], ["Share of the blame", (c) => percent(c.confidence), true]]} />`;
}

// What the number is made of: each counter as it was read, poll by poll.
function Proof({ evidence }) {
  if (!evidence.raw.length) return null;
  return html`<details><summary>${evidence.formula}</summary><ul>${evidence.raw.map((raw) => html`<li>${raw.counter}${raw.queue != null ? ` queue ${raw.queue}` : ""}, ${raw.unit}, from ${raw.source || raw.counter}:
    ${raw.samples.map((s) => `${s.value ?? `${s.rate}/s`} at ${s.at.slice(11, 23)}${s.state === "ok" ? "" : ` (${s.state})`}`).join(", ")}</li>`)}</ul></details>`;
}

// The cause, then the ports that wait on its device, then those that wait on theirs.
function Tree({ incident }) {
  const topology = useApi("topology", { fabric: incident.fabric }, 0);
  const ends = useMemo(() => (topology.data ? layout(topology.data) : null), [topology.data]);
  const { roots, rest } = useMemo(() => grow(incident, ends), [incident, ends]);
  const branch = (one) => html`<li><span aria-hidden="true">▲ </span><${PortName} fabric=${incident.fabric} device=${one.device} port=${one.port} /> ${percent(one.stall_ratio)}
    ${one.under.length > 0 && html`<ul>${one.under.map(branch)}</ul>`}</li>`;
  return html`<ul class="tree"><li><span aria-hidden="true">◆ </span>${portText(incident.cause)}<ul>${roots.map(branch)}</ul></li>
    ${rest.length > 0 && html`<li>${roots.length ? "Also held back" : "Held back"}<ul>${rest.slice(0, 100).map(branch)}</ul></li>`}</ul>`;
}

// A victim hangs under the device at the other end of its cable, each once, nearest to the cause first.
export function grow(incident, plan) {
  const hardest = [...incident.victims].sort((a, b) => b.stall_ratio - a.stall_ratio).map((one) => ({ ...one, under: [] }));
  const waitsOn = new Map();
  for (const one of hardest) {
    const ends = plan?.ends.get(`${one.device}\0${one.port}`);
    const peer = ends ? plan.names[ends[1]] : null;
    if (!waitsOn.has(peer)) waitsOn.set(peer, []);
    waitsOn.get(peer).push(one);
  }
  const placed = new Set();
  const under = (device) => (waitsOn.get(device) ?? []).filter((one) => !placed.has(one) && placed.add(one));
  const seen = new Set([incident.cause?.device]);
  const roots = incident.cause ? under(incident.cause.device) : [];
  for (const queue = [...roots]; queue.length;) {
    const one = queue.shift();
    if (seen.has(one.device)) continue;
    seen.add(one.device);
    one.under = under(one.device);
    queue.push(...one.under);
  }
  return { roots, rest: hardest.filter((one) => !placed.has(one)) };
}

function Acknowledge({ incident, may, done }) {
  const [comment, setComment] = useState("");
  const [error, setError] = useState(null);
  const path = `incidents/${encodeURIComponent(incident.id)}/acknowledge`;
  const send = (method, body) => api(path, {}, { method, headers: { "Content-Type": "application/json" }, body })
    .then(() => { setError(null); done(); }).catch((e) => setError(e.message));
  if (incident.acknowledged) {
    const { by, at, comment: said } = incident.acknowledged;
    return html`<p>Seen by <strong>${by}</strong>, ${clock(at)}${said && `: ${said}`} <button onClick=${() => send("DELETE")}>Take back</button></p><${Problem} error=${error} />`;
  }
  if (!may) return html`<p class="dim">To acknowledge incidents here, set up users in the web config file.</p>`;
  return html`<form class="filters" onSubmit=${(e) => { e.preventDefault(); send("POST", JSON.stringify({ comment })); }}>
    <label>Comment <input value=${comment} maxlength="1000" onInput=${(e) => setComment(e.target.value)} /></label>
    <button>Acknowledge</button></form><${Problem} error=${error} />`;
}
