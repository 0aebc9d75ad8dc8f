"use strict";
// Shows the values of a chart under the pointer. Everything else works without a script.
(() => {
  const tip = document.getElementById("tip");
  const three = (v) => String(Number(v.toPrecision(3)));
  const scaled = (v, base, names) => {
    let i = 0;
    while (Math.abs(v) >= base && i + 1 < names.length) { v /= base; i++; }
    return three(v) + names[i];
  };
  const texts = {
    "n": (v) => scaled(v, 1000, ["", " k", " M", " G", " T"]),
    "n/s": (v) => scaled(v, 1000, ["", " k", " M", " G", " T"]) + "/s",
    "B": (v) => scaled(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
    "B/s": (v) => scaled(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) + "/s",
    "ms": (v) => v >= 1000 ? three(v / 1000) + " s" : v >= 1 || v === 0 ? three(v) + " ms" : three(v * 1000) + " µs",
    "s": (v) => v > 120 ? Math.floor(v / 60) + ":" + String(Math.floor(v % 60)).padStart(2, "0") + " min" : three(v) + " s",
    "%": (v) => Number((v * 100).toFixed(4)) + " %",
  };
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (xs[mid] < x) low = mid; else high = mid; }
    return x - xs[low] < xs[high] - x ? low : high;
  };
  const element = (parent, name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    parent.appendChild(made);
  };
  const row = (cells) => {
    const tr = document.createElement("tr");
    for (const cell of cells) {
      const td = document.createElement("td");
      if (typeof cell === "string") td.textContent = cell; else td.appendChild(cell);
      tr.appendChild(td);
    }
    return tr;
  };
  for (const figure of document.querySelectorAll("figure.chart")) {
    const block = figure.querySelector("script");
    if (!block) continue;
    const svg = figure.querySelector("svg"), cross = figure.querySelector(".cross");
    let chart = null;
    const read = () => {
      chart = JSON.parse(block.textContent);
      let xs = [];
      for (const s of chart.s) { if (s[2]) xs = s[2]; else s[2] = xs; }
    };
    const hide = () => { tip.style.display = "none"; cross.textContent = ""; };
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", (event) => {
      if (!chart) read();
      const [unit, scale, low, high] = chart.x;
      const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      const at = (event.clientX - box.left) * view.width / box.width;
      const share = (at - chart.l) / (chart.r - chart.l);
      if (share < 0 || share > 1) return hide();
      const log = scale === "log";
      const x = log ? Math.pow(10, Math.log10(low) + share * Math.log10(high / low)) : low + share * (high - low);
      const pixel = (v) => chart.l + (chart.r - chart.l) * (log ? Math.log10(v / low) / Math.log10(high / low) : (v - low) / (high - low));
      const rows = [];
      let snapped = null;
      chart.s.forEach(([name, color, xs, ys], i) => {
        const box = document.getElementById(figure.id + "-" + i);
        if (!xs.length || (box && !box.checked)) return;
        const n = nearest(xs, x);
        if (ys[n] === null || Math.abs(pixel(xs[n]) - at) > 12) return;
        if (snapped === null) snapped = xs[n];
        rows.push([name, color, ys[n]]);
      });
      if (!rows.length) return hide();
      cross.textContent = "";
      element(cross, "line", { x1: pixel(snapped), x2: pixel(snapped), y1: chart.t, y2: chart.b });
      const table = document.createElement("table");
      table.appendChild(row(["", texts[unit](snapped), ""]));
      for (const [name, color, y] of rows) {
        const dot = document.createElement("i");
        dot.className = "c" + color % 8;
        table.appendChild(row([dot, name, texts[chart.y](y)]));
      }
      tip.replaceChildren(table);
      tip.style.display = "block";
      const left = event.pageX + 16 + tip.offsetWidth > document.documentElement.clientWidth ? event.pageX - tip.offsetWidth - 16 : event.pageX + 16;
      tip.style.left = Math.max(0, left) + "px";
      tip.style.top = event.pageY + 14 + "px";
    });
  }
  // Open all sections for printing; closed ones would be missing.
  window.addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
