// Draws the charts from the JSON beside them. Printing redraws them at the paper's width.
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
