// Draws the charts from the JSON beside them. Printing redraws them at the paper's width.
// A table that is cut at the right says so.
"use strict";
const config = {
  displaylogo: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
};
const charts = [...document.querySelectorAll("script[data-chart]")].map((script) => {
  const place = document.getElementById(script.dataset.chart);
  const { data, layout } = JSON.parse(script.textContent);
  Plotly.newPlot(place, data, layout, config);
  return place;
});
const fit = (width) => charts.forEach((place) => Plotly.relayout(place, width(place)));
window.addEventListener("beforeprint", () => {
  fit(() => ({ autosize: false, width: 1000 }));
});
window.addEventListener("afterprint", () => fit(() => ({ autosize: true, width: null })));

const table = document.querySelector(".compared");
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
