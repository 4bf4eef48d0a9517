// window.uPlot, which static/js/charts.js draws with.
import uPlot from "uplot";

window.uPlot = uPlot;
