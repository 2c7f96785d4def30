// Draws each chart from the JSON beside it when it comes near, and the rest while nothing else is
// to do, in the reader's colour scheme. Printing draws all in the light one at the paper's width. A
// table that is cut at the right says so; one with buttons in its head sorts.
"use strict";
const config = (id) => ({
  displaylogo: false,
  responsive: true,
  displayModeBar: "hover",
  plotlyServerURL: "",
  modeBarButtonsToRemove: [
    "sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d",
  ],
  toImageButtonOptions: { format: "svg", filename: `kvtwin-${id}` },
});
const encoded = JSON.parse(document.getElementById("arrays").textContent);
const decoded = new Map();
const array = (number) => {
  if (!decoded.has(number)) {
    const bytes = Uint8Array.from(atob(encoded[number]), (sign) => sign.charCodeAt(0));
    decoded.set(number, new Float32Array(bytes.buffer));
  }
  return decoded.get(number);
};
// The inks of the light scheme and what stands for them in the dark one.
const inks = [
  ["#16202A", "#E6EAEE"], ["#5B6670", "#A9B4BE"], ["#DDE1E5", "#3A444D"], ["#EEF0F2", "#2A333B"],
  ["#EDEFF1", "#2F3942"], ["#4A5560", "#C3CCD4"], ["#FFFFFF\",\"bordercolor", "#1E252B\",\"bordercolor"],
  ["#332288", "#9C8FE8"], ["#117733", "#4FB574"], ["#882255", "#D977A8"], ["#6F6F6F", "#A8A8A8"],
  ["#AA4499", "#D58BCB"], ["#807A1F", "#C2BA55"], ["#4477BB", "#7FAEE8"],
];
const parse = (text, dark) => {
  const shown = dark ? inks.reduce((all, [from, to]) => all.replaceAll(from, to), text) : text;
  return JSON.parse(shown, (key, value) => (value && value.$ !== undefined ? array(value.$) : value));
};
const scheme = window.matchMedia("(prefers-color-scheme: dark)");
// The library is run when the first chart is: the text needn't wait for it.
const library = () => {
  if (!window.Plotly) {
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }
  return window.Plotly;
};
const scripts = [...document.querySelectorAll("script[data-chart]")];
const drawn = new Set();
const draw = (script, dark, width) => {
  const place = document.getElementById(script.dataset.chart);
  const { data, layout } = parse(script.textContent, dark);
  if (width) Object.assign(layout, { autosize: false, width });
  library().react(place, data, layout, config(place.id));
  drawn.add(script);
  // Every button can be had by mouse; by keyboard the numbers are in the tables.
  for (const button of place.querySelectorAll(".modebar-btn, .modebar a, .modebar button")) {
    button.setAttribute("tabindex", "-1");
  }
};
const drawAll = (dark, width) => scripts.forEach((script) => draw(script, dark, width));
const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    const script = scripts.find(({ dataset }) => dataset.chart === target.id);
    if (isIntersecting && !drawn.has(script)) draw(script, scheme.matches);
  }
}, { rootMargin: "100px" });
for (const { dataset } of scripts) near.observe(document.getElementById(dataset.chart));
const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 100));
const rest = () => {
  const next = scripts.find((script) => !drawn.has(script));
  if (!next) return;
  draw(next, scheme.matches);
  idle(rest);
};
window.addEventListener("load", () => idle(rest));
scheme.addEventListener("change", () => {
  for (const script of drawn) draw(script, scheme.matches);
});
window.addEventListener("beforeprint", () => drawAll(false, 1000));
window.addEventListener("afterprint", () => drawAll(scheme.matches));

for (const table of document.querySelectorAll(".compared")) {
  const cue = () => {
    const { scrollWidth, clientWidth, scrollLeft } = table;
    const scrolls = getComputedStyle(table).overflowX !== "visible" && scrollWidth > clientWidth + 1;
    table.parentElement.classList.toggle("scrolls", scrolls);
    const cut = scrolls && scrollWidth - clientWidth - scrollLeft > 1;
    table.parentElement.classList.toggle("cut", cut);
  };
  table.addEventListener("scroll", cue);
  window.addEventListener("resize", cue);
  document.getElementById("all-metrics")?.addEventListener("change", cue);
  cue();
}

for (const head of document.querySelectorAll(".sortable thead th")) {
  head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const column = [...head.parentElement.children].indexOf(head);
    const body = head.closest("table").tBodies[0];
    const key = (row) => {
      const { value } = row.cells[column].dataset;
      return column ? (value === undefined ? Infinity : Number(value)) : row.cells[0].textContent;
    };
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (up ? 1 : -1);
    body.append(...[...body.rows].sort(order));
  });
}
