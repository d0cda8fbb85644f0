// The ticks that are kept: bars of the worst stall, and a slider to look at any of them.
import { html } from "./lib.js";

const BARS = 240;

export function Timeline({ line, tick, pick }) {
  const count = line.ticks.length;
  if (count === 0) return null;
  const at = tick === null ? count - 1 : Math.max(0, line.ticks.indexOf(tick));
  const stamp = new Date(line.times[at] * 1000).toISOString().slice(0, 19).replace("T", " ");
  const choose = (index) => pick(index >= count - 1 ? null : line.ticks[index]);
  const text = `tick ${line.ticks[at]}, ${stamp} UTC, worst stall ${Math.round(line.worst_stall_ratio[at] * 100)} %, ${line.incidents[at]} incidents`;
  return html`<div class="timeline">
    <button onClick=${() => choose(at - 1)} disabled=${at === 0} aria-label="One tick back">◀</button>
    <div class="track">
      <svg viewBox=${`0 0 ${BARS} 36`} preserveAspectRatio="none" aria-hidden="true">${bars(line, at)}</svg>
      <input type="range" min="0" max=${count - 1} value=${at} aria-label="Tick" aria-valuetext=${text} onInput=${(e) => choose(Number(e.target.value))} />
    </div>
    <button onClick=${() => choose(at + 1)} disabled=${at === count - 1} aria-label="One tick on">▶</button>
    <button onClick=${() => pick(null)} disabled=${tick === null}>Live</button>
    <span>${stamp} UTC</span>
  </div>`;
}

// At most BARS bars: each shows the worst of its ticks; those with an incident have a foot.
function bars(line, at) {
  const count = line.ticks.length;
  const per = Math.max(1, Math.ceil(count / BARS));
  const width = (BARS * per) / Math.max(count, per);
  const out = [];
  for (let first = 0, i = 0; first < count; first += per, i += 1) {
    const part = (key) => Math.max(...line[key].slice(first, first + per));
    const height = 2 + part("worst_stall_ratio") * 30;
    const here = first <= at && at < first + per;
    out.push(html`<rect x=${i * width} y=${34 - height} width=${Math.max(0.4, width * 0.85)} height=${height} fill=${here ? "var(--focus)" : "var(--mid)"} />`);
    if (part("incidents") > 0) out.push(html`<rect x=${i * width} y="34" width=${Math.max(0.4, width)} height="2" fill="var(--cause)" />`);
  }
  return out;
}
