// What every view uses: fetching, formatting, tables. Names of devices are only ever text nodes.
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor-preact.js";
export { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

// Not relative: an address with a name and password in it would make requests fail.
export const address = (path) => `${location.origin}/api/v1/${path}`;

export async function api(path, query = {}, options = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "" && v != null));
  const answer = await fetch(`${address(path)}?${search}`, options);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
  return answer.status === 204 ? null : answer.json();
}

// Data of one API path, asked again when `version` changes; what was there stays while it loads.
// Another query begins empty, unless `keep`: an element that is moved aside would lose the focus.
export function useApi(path, query, version, keep = false) {
  const [state, setState] = useState({ data: null, error: null });
  const key = `${path}?${JSON.stringify(query)}`;
  const last = useRef(key);
  useEffect(() => {
    let stale = false;
    if (last.current !== key && !keep) setState({ data: null, error: null });
    last.current = key;
    if (path === null) return undefined;
    api(path, query)
      .then((data) => stale || setState({ data, error: null }))
      .catch((error) => stale || setState((old) => ({ data: old.data, error: error.message })));
    return () => { stale = true; };
  }, [key, version]);
  return state;
}

export const percent = (ratio) => (ratio == null ? "unknown" : `${(ratio * 100).toFixed(ratio < 0.1 ? 1 : 0)} %`);
export const clock = (iso) => (iso ? `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC` : "never");
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];
const SYMBOLS = { bytes: "B", "bytes/s": "B/s", bits: "b", "bits/s": "b/s" };
export function scaled(value, unit = "", base = 1000) {
  if (value == null) return "unknown";
  unit = SYMBOLS[unit] ?? unit;
  let i = 0;
  while (Math.abs(value) >= base && i < PREFIXES.length - 1) { value /= base; i += 1; }
  const text = i === 0 && Number.isInteger(value) ? String(value) : value.toPrecision(3);
  const apart = unit.length > 3 ? " " : ""; // a word is no symbol: 34 k packets
  return `${Number(text)} ${PREFIXES[i]}${PREFIXES[i] && apart}${unit}`.trim();
}
export const duration = (s) => (s >= 7200 ? `${(s / 3600).toPrecision(3)} h` : s >= 120 ? `${(s / 60).toPrecision(3)} min` : `${Number(s.toPrecision(3))} s`);
export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const portLink = (fabric, device, port) => link("port", fabric, device, port);

export function PortName({ fabric, device, port }) {
  if (!device) return html`<span>none named</span>`;
  if (!port) return html`<span>${device}</span>`;
  return html`<a href=${portLink(fabric, device, port)}>${device} <span class="dim">[${port}]</span></a>`;
}

// columns: [title, row -> cell, numeric?]
export function Table({ caption, columns, rows, empty = "nothing" }) {
  if (!rows.length) return html`<p class="dim">${caption}: ${empty}</p>`;
  return html`<div class=${columns.length < 4 ? "scroll narrow" : "scroll"} tabindex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${columns.map(([title, , numeric]) => html`<th scope="col" class=${numeric ? "num" : ""}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${columns.map(([, cell, numeric]) => html`<td class=${numeric ? "num" : ""}>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Problem({ error }) {
  return error ? html`<p class="problem" role="alert">${error}</p>` : null;
}

export function Severity({ incident }) {
  const shape = { mild: "○", moderate: "◐", severe: "●" }[incident.severity];
  return html`<span class=${`tag ${incident.severity}`}><span aria-hidden="true">${shape} </span>${incident.severity}</span>`;
}

export function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
