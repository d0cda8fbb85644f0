// The fabric in tiers, with what is held back drawn on it, now or at any tick that is kept.
import { html, useEffect, useMemo, useRef, useState, useApi, link, percent, PortName, Problem, Table } from "./lib.js";
import { Cards, verdictLine } from "./incidents.js";
import { layout, TIER_NAMES } from "./layout.js";
import { paint, pointToNode } from "./paint.js";
import { Timeline } from "./timeline.js";

export function FabricView({ fabric, version, status }) {
  const [tick, pick] = useState(null);
  const summary = status?.fabrics.find((one) => one.name === fabric);
  const shape = summary ? `${summary.nodes}/${summary.links}` : "";
  const topology = useApi("topology", { fabric }, shape);
  const line = useApi("timeline", { fabric }, version);
  const moment = useApi("moment", { fabric, tick }, tick === null ? version : "past", true);
  const plan = useMemo(() => (topology.data ? layout(topology.data) : null), [topology.data]);
  const now = moment.data;
  const worst = now?.incidents[0];
  return html`<h1>Fabric ${fabric}</h1>
    <${Problem} error=${topology.error || moment.error} />
    ${now && html`<p class=${`verdict ${worst ? "bad" : ""}`} role="status">${worst
      ? html`${verdictLine(worst)} <a href=${link("incident", worst.id)}>Why, and what to do</a>`
      : `No incident. ${summary?.learning ? "The detector is still learning what is normal; the rules already watch. " : ""}${now.stalled_ports} ports wait more than 2 % of the time.`}${summary?.silent_ports ? ` Of ${summary.silent_ports} ports nothing is known: they are silent.` : ""}</p>`}
    <div class="split">
      <div>
        ${plan && now && html`<${FabricMap} plan=${plan} moment=${now} fabric=${fabric} />`}
        ${line.data && html`<${Timeline} line=${line.data} tick=${tick} pick=${pick} />`}
      </div>
      <section aria-label="Incidents"><h2>${tick === null ? "Now" : "At that tick"}</h2>${now && html`<${Cards} incidents=${now.incidents} />`}</section>
    </div>
    ${now && html`<details><summary>The drawing as tables</summary>
      <${Table} caption=${`Ports held back, hardest first (${now.stalled_ports} in all)`} rows=${now.stalled.slice(0, 200)} empty="none" columns=${[
        ["Port", ([device, port]) => html`<${PortName} fabric=${fabric} device=${device} port=${port} />`],
        ["Waits on", ([device, port]) => peerName(plan, device, port)],
        ["Stall ratio", ([, , stall]) => percent(stall), true]]} />
      ${plan && plan.rows.map((row) => html`<${Table} caption=${`${row.nodes.length} × ${TIER_NAMES[row.tier]}${row.nodes.length > 200 ? ", the first 200" : ""}`} rows=${row.nodes.slice(0, 200)} columns=${[
        ["Device", (node) => html`<a href=${`${link("ports")}?device=${encodeURIComponent(plan.names[node])}`}>${plan.names[node]}</a>`]]} />`)}
    </details>`}`;
}

function peerName(plan, device, port) {
  const ends = plan?.ends.get(`${device}\0${port}`);
  return ends ? plan.names[ends[1]] : "unknown";
}

const START = { zoom: 1, left: 0 };

function FabricMap({ plan, moment, fabric }) {
  const canvas = useRef(null);
  const [view, setView] = useState(START);
  const [at, setAt] = useState(null);
  const [size, setSize] = useState(0);
  const [flip, setFlip] = useState(0);
  const held = useMemo(() => heldBack(moment), [moment]);
  useEffect(() => {
    const watch = new ResizeObserver(() => setSize(canvas.current?.clientWidth ?? 0));
    watch.observe(canvas.current);
    const again = () => setFlip((n) => n + 1);
    addEventListener("themechange", again);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    return () => { watch.disconnect(); removeEventListener("themechange", again); dark.removeEventListener("change", again); };
  }, []);
  useEffect(() => {
    if (!size) return;
    paint(canvas.current, plan, moment, view, at);
    performance.mark("fabric-drawn");
  }, [plan, moment, view, at, size, flip]);
  const zoom = (factor, centre = 0.5) => setView((old) => {
    const next = Math.min(200, Math.max(1, old.zoom * factor));
    const left = old.left + centre / old.zoom - centre / next;
    return { zoom: next, left: Math.min(1 - 1 / next, Math.max(0, left)) };
  });
  const pan = (share) => setView((old) => ({ ...old, left: Math.min(1 - 1 / old.zoom, Math.max(0, old.left + share / old.zoom)) }));
  const open = (node) => { location.hash = `${link("ports")}?device=${encodeURIComponent(plan.names[node])}`; };
  const seen = (node) => {  // bring a node that the keyboard moved to into the picture
    setAt(node);
    setView((old) => {
      const inside = plan.place[node] >= old.left && plan.place[node] <= old.left + 1 / old.zoom;
      return inside ? old : { ...old, left: Math.min(1 - 1 / old.zoom, Math.max(0, plan.place[node] - 0.5 / old.zoom)) };
    });
  };
  const keys = (event) => {
    const action = {
      ArrowRight: () => seen(beside(plan, at, 1)), ArrowLeft: () => seen(beside(plan, at, -1)),
      ArrowUp: () => seen(nextRow(plan, at, -1)), ArrowDown: () => seen(nextRow(plan, at, 1)),
      "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: () => setView(START),
      Enter: () => at !== null && open(at), Escape: () => setAt(null),
    }[event.key];
    if (action) { event.preventDefault(); action(); }
  };
  const hit = (event) => pointToNode(canvas.current, plan, view, event.offsetX, event.offsetY);
  const drag = useRef(null);
  return html`<div class="map">
    <canvas ref=${canvas} tabindex="0" role="application" aria-label=${`Map of ${fabric}: arrow keys move between devices, Enter opens one, plus and minus zoom`} aria-describedby="map-at"
      onKeyDown=${keys}
      onPointerDown=${(e) => { drag.current = { x: e.offsetX, moved: false }; }}
      onPointerMove=${(e) => {
        if (e.buttons === 1 && drag.current) {
          const by = e.offsetX - drag.current.x;
          if (Math.abs(by) > 3) { drag.current = { x: e.offsetX, moved: true }; pan(-by / size); }
        } else { const node = hit(e); if (node !== null) setAt(node); }
      }}
      onClick=${(e) => { const node = hit(e); if (node !== null && !drag.current?.moved) open(node); }}
      onWheel=${(e) => { e.preventDefault(); zoom(e.deltaY < 0 ? 1.25 : 0.8, e.offsetX / size); }} />
    <div class="tools"><button onClick=${() => zoom(1.6)} aria-label="Zoom in">+</button><button onClick=${() => zoom(1 / 1.6)} aria-label="Zoom out">−</button><button onClick=${() => setView(START)}>Fit</button></div>
    </div>
    <div id="map-at" role="status" aria-live="polite">${at === null ? html`<span class="dim">Point at a device, or use the arrow keys on the map.</span>` : describe(plan, held, at)}</div>
    <div class="legend" aria-hidden="true">
      <span><svg><path d="M0 6H34" stroke="var(--low)" stroke-width="2" /></svg>held back a little</span>
      <span><svg><path d="M0 6H34" stroke="var(--mid)" stroke-width="4" /></svg>half of the time</span>
      <span><svg><path d="M0 6H34" stroke="var(--high)" stroke-width="6" /></svg>nearly always; arrows point at what holds it back</span>
      <span><svg viewBox="0 0 34 12"><path d="M17 0 23 6 17 12 11 6Z" fill="var(--cause)" /></svg>cause</span>
    </div>`;
}

function heldBack(moment) {
  const held = new Map();
  for (const [device, , stall] of moment.stalled) {
    const one = held.get(device) ?? { ports: 0, worst: 0 };
    held.set(device, { ports: one.ports + 1, worst: Math.max(one.worst, stall) });
  }
  return held;
}

function describe(plan, held, node) {
  const name = plan.names[node];
  const one = held.get(name);
  return html`<strong>${name}</strong>, ${TIER_NAMES[plan.tiers[node]]}: ${one ? `${one.ports} ports held back, the worst ${percent(one.worst)} of the time` : "nothing held back"}`;
}

function beside(plan, at, step) {
  if (at === null) return plan.rows[0].nodes[0];
  const nodes = plan.rows[plan.row[at]].nodes;
  return nodes[(nodes.indexOf(at) + step + nodes.length) % nodes.length];
}

function nextRow(plan, at, step) {
  if (at === null) return plan.rows[0].nodes[0];
  const row = plan.rows[Math.min(plan.rows.length - 1, Math.max(0, plan.row[at] + step))];
  return row.nodes.reduce((best, node) => (Math.abs(plan.place[node] - plan.place[at]) < Math.abs(plan.place[best] - plan.place[at]) ? node : best));
}
