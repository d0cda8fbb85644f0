// Targets, and how much of what is counted is known.
import { html, useApi, clock, Problem, Table } from "./lib.js";

const MEANING = {
  ok: "read and good", wrapped: "passed its top, still good", held: "between two refreshes of the device", missing: "not in this poll",
  unsupported: "the device does not count this", baseline: "first value of a series", saturated: "stuck at its maximum: rate unknown",
  reset: "somebody cleared it, or a restart", stale: "the device's cache has stopped", over_rate: "more than the link carries: withheld",
};

export function TargetsView({ version, status }) {
  const { data, error } = useApi("targets", {}, version);
  const failures = (t) => Object.entries(t.failures).map(([reason, count]) => `${reason} ${count}`).join(", ");
  return html`<h1>Targets and coverage</h1><${Problem} error=${error} />
    ${data && html`<${Table} caption=${`${data.filter((t) => t.up).length} of ${data.length} answer`} rows=${[...data].sort((a, b) => a.up - b.up)} empty="no target has been polled yet" columns=${[
      ["State", (t) => (t.up ? html`<span>✓ up</span>` : html`<strong>✗ down</strong>`)], ["Target", (t) => t.target], ["Collector", (t) => t.collector],
      ["Fabric", (t) => t.fabric], ["Last success", (t) => clock(t.last_success_at)], ["Poll took", (t) => `${t.last_duration_s.toFixed(2)} s`, true],
      ["Failures", failures], ["Last error", (t) => t.last_error]]} />`}
    ${(status?.fabrics ?? []).map((fabric) => html`<${Coverage} fabric=${fabric} />`)}`;
}

function Coverage({ fabric }) {
  const states = Object.entries(fabric.values).sort((a, b) => b[1] - a[1]);
  const sum = states.reduce((total, [, count]) => total + count, 0);
  return html`<h2>${fabric.name}: ${sum} values of ${fabric.ports} ports</h2>
    <${Table} caption="What is known of each counter's value in the last tick" rows=${states} empty="nothing read yet" columns=${[
      ["State", ([state]) => state], ["Share", ([, count]) => html`<svg class="bar" width=${Math.max(1, Math.round((200 * count) / sum))} height="10" aria-hidden="true" />${((100 * count) / sum).toFixed(1)} %`],
      ["Values", ([, count]) => count, true], ["Meaning", ([state]) => MEANING[state] ?? ""]]} />`;
}
