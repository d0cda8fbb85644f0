// The drawing itself, on one canvas: wires, then what is held back, then nodes, then causes.
import { theme } from "./lib.js";

const TOP = 40;
const BOTTOM = 50;

const rowY = (plan, row, height) => (plan.rows.length === 1 ? height / 2 : TOP + (row * (height - TOP - BOTTOM)) / (plan.rows.length - 1));

export function pointToNode(canvas, plan, view, x, y) {
  const height = canvas.clientHeight;
  let row = null;
  plan.rows.forEach((_, i) => { if (Math.abs(rowY(plan, i, height) - y) < 18) row = i; });
  if (row === null) return null;
  const at = view.left + x / canvas.clientWidth / view.zoom;
  const nodes = plan.rows[row].nodes;
  const near = nodes[Math.min(nodes.length - 1, Math.max(0, Math.floor(at * nodes.length)))];
  return near ?? null;
}

export function paint(canvas, plan, moment, view, selected) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const x = (node) => (plan.place[node] - view.left) * view.zoom * width;
  const y = (node) => rowY(plan, plan.row[node], height);
  const colours = Object.fromEntries(["fg", "dim", "wire", "node", "low", "mid", "high", "cause", "focus", "bg"].map((name) => [name, theme(`--${name}`)]));
  const all = { pen, plan, x, y, width, height, view, colours };
  wires(all);
  pressure(all, moment);
  nodes(all);
  causes(all, moment);
  if (selected !== null) {
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 3;
    pen.strokeRect(x(selected) - 16, y(selected) - 13, 32, 26);
  }
}

function wires({ pen, plan, x, y, width, colours }) {
  pen.beginPath();
  for (const [a, , b] of plan.links) {
    const from = x(a);
    const to = x(b);
    if ((from < 0 && to < 0) || (from > width && to > width)) continue;
    pen.moveTo(from, y(a));
    pen.lineTo(to, y(b));
  }
  pen.globalAlpha = Math.max(0.12, Math.min(1, 400 / plan.links.length));
  pen.strokeStyle = colours.wire;
  pen.lineWidth = 1;
  pen.stroke();
  pen.globalAlpha = 1;
}

const strength = (stall, colours) => (stall < 0.25 ? colours.low : stall < 0.7 ? colours.mid : colours.high);

function pressure({ pen, plan, x, y, colours }, moment) {
  const crowd = Math.min(1, 12 / Math.sqrt(moment.stalled.length || 1)); // thinner where there are many
  for (const [device, port, stall] of [...moment.stalled].reverse()) {
    const ends = plan.ends.get(`${device}\0${port}`);
    pen.strokeStyle = pen.fillStyle = strength(stall, colours);
    pen.lineWidth = Math.max(0.7, (1 + 5 * stall) * crowd);
    if (!ends) {
      const node = plan.index.get(device);
      if (node !== undefined) triangle(pen, x(node), y(node) - 16, -Math.PI / 2, 7);
      continue;
    }
    const [from, to] = ends;
    pen.beginPath();
    pen.moveTo(x(from), y(from));
    pen.lineTo(x(to), y(to));
    pen.stroke();
    const angle = Math.atan2(y(to) - y(from), x(to) - x(from));
    triangle(pen, x(from) + (x(to) - x(from)) * 0.6, y(from) + (y(to) - y(from)) * 0.6, angle, (5 + 5 * stall) * Math.max(0.4, crowd));
  }
}

function triangle(pen, cx, cy, angle, size) {
  pen.beginPath();
  for (const turn of [0, 2.5, -2.5]) pen.lineTo(cx + size * Math.cos(angle + turn), cy + size * Math.sin(angle + turn));
  pen.closePath();
  pen.fill();
}

function nodes({ pen, plan, x, y, width, height, view, colours }) {
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  for (const [i, row] of plan.rows.entries()) {
    const space = (view.zoom * width) / row.nodes.length;
    const wide = Math.max(1, Math.min(row.tier === 0 ? 12 : 26, space * 0.7));
    const tall = row.tier === 0 ? 12 : 16;
    const below = i === plan.rows.length - 1;
    for (const node of row.nodes) {
      const cx = x(node);
      if (cx < -60 || cx > width + 60) continue;
      pen.fillStyle = colours.node;
      pen.fillRect(cx - wide / 2, y(node) - tall / 2, wide, tall);
      if (space < 34) continue;
      pen.fillStyle = colours.fg;
      const text = fitted(pen, plan.names[node], space - 6);
      pen.fillText(text, cx, y(node) + (below ? tall / 2 + 16 : -tall / 2 - 8));
    }
    if (space < 34) {
      pen.fillStyle = colours.dim;
      pen.textAlign = "left";
      pen.fillText(`${row.nodes.length} devices: zoom in for names`, 10, rowY(plan, i, height) + (below ? 43 : -18));
      pen.textAlign = "center";
    }
  }
}

function fitted(pen, name, space) {
  if (pen.measureText(name).width <= space) return name;
  let keep = name.length;
  while (keep > 1 && pen.measureText(`${name.slice(0, keep)}…`).width > space) keep -= 1;
  return `${name.slice(0, keep)}…`;
}

// The name of a device where the row has no room for names: on a plate, over what is below.
function label(pen, name, cx, cy, colours) {
  const { width } = pen.measureText(name);
  const fill = pen.fillStyle;
  pen.fillStyle = colours.bg;
  pen.fillRect(cx - width / 2 - 3, cy - 11, width + 6, 15);
  pen.fillStyle = colours.fg;
  pen.fillText(name, cx, cy);
  pen.fillStyle = fill;
}

function causes({ pen, plan, x, y, width, view, colours }, moment) {
  for (const incident of moment.incidents) {
    const { cause } = incident;
    const node = cause ? plan.index.get(cause.device) : undefined;
    if (node === undefined) continue;
    const ends = cause.port ? plan.ends.get(`${cause.device}\0${cause.port}`) : null;
    pen.strokeStyle = pen.fillStyle = colours.cause;
    if (ends) {
      pen.setLineDash([7, 4]);
      pen.lineWidth = 3;
      pen.beginPath();
      pen.moveTo(x(ends[0]), y(ends[0]));
      pen.lineTo(x(ends[1]), y(ends[1]));
      pen.stroke();
      pen.setLineDash([]);
      for (const end of ends) if ((view.zoom * width) / plan.rows[plan.row[end]].nodes.length < 34) label(pen, plan.names[end], x(end), y(end) + 24, colours);
    }
    pen.beginPath();
    for (const [dx, dy] of [[0, -12], [12, 0], [0, 12], [-12, 0]]) pen.lineTo(x(node) + dx, y(node) + dy);
    pen.closePath();
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = colours.bg;
    pen.stroke();
  }
}
