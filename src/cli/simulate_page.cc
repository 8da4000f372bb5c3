// SPDX-License-Identifier: Apache-2.0
// The HTML page of `kvcache simulate`: one file without scripts, fonts or references to anything outside of
// it, with curves over the load, or for one rate over the share of the requests.
#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "cli/simulate.h"
#include "cli/table.h"

namespace kvcli {
namespace {

constexpr double kWidth = 720, kHeight = 300;
constexpr double kLeft = 72, kRight = 24, kTop = 30, kBottom = 52;  // Around a plot, for labels.

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fcfcfb; --text: #1b1b1a; --muted: #5f5e5a; --grid: #e4e3df; --one: #2a78d6; --two: #c2571b; }
@media (prefers-color-scheme: dark) {
  :root { --page: #1a1a19; --text: #f0efea; --muted: #b4b2a9; --grid: #3a3a37; --one: #5a9ded; --two: #e8834f; }
}
body { margin: 2rem auto; max-width: 760px; padding: 0 1rem; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 0; }
p { margin: .25rem 0 .75rem; color: var(--muted); }
svg { display: block; width: 100%; height: auto; font-size: 12px; }
text { fill: var(--muted); }
.grid { stroke: var(--grid); }
.one, .two { fill: none; stroke-width: 2; stroke-linejoin: round; }
.one { stroke: var(--one); } .two { stroke: var(--two); }
.dot.one, .key.one { fill: var(--one); } .dot.two, .key.two { fill: var(--two); }
.dot { stroke: var(--page) !important; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: .75rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--muted); font-weight: 600; }
)";

struct Point {
  double x, y;
};
struct Curve {
  const char* name;
  std::vector<Point> points;
};

/// 5 or so round numbers from 0 to at least `top`.
std::vector<double> round_ticks(double top) {
  const double rough = std::max(top, 1e-9) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0})
    if (power * factor >= rough * 0.999999) step = power * factor;
  std::vector<double> ticks{0};
  while (ticks.back() < top * 0.999999) ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& attributes = "") {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\"" +
         attributes + ">" + text + "</text>\n";
}

/// At most two curves over rising x, both axes from 0.
std::string draw_curves(const std::string& name, const char* x_name, const char* y_name,
                        const std::vector<Curve>& curves, bool dots) {
  double right = 0, top = 0;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) right = std::max(right, point.x), top = std::max(top, point.y);
  const std::vector<double> x_ticks = round_ticks(right), y_ticks = round_ticks(top);
  const auto x_of = [&](double x) { return kLeft + (kWidth - kLeft - kRight) * x / x_ticks.back(); };
  const auto y_of = [&](double y) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * y / y_ticks.back();
  };
  std::ostringstream svg;
  svg << "<svg viewBox=\"0 0 720 300\" role=\"img\" aria-label=\"" << name << "\">\n";
  for (const double tick : y_ticks) {
    const std::string y = fixed(y_of(tick), 1);
    svg << "<line class=\"grid\" x1=\"72\" x2=\"696\" y1=\"" << y << "\" y2=\"" << y << "\"/>\n"
        << text_at(kLeft - 8, y_of(tick) + 4, "end", number_text(tick));
  }
  for (const double tick : x_ticks)
    svg << text_at(x_of(tick), kHeight - kBottom + 18, "middle", number_text(tick));
  svg << text_at((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", x_name)
      << text_at(14, (kTop + kHeight - kBottom) / 2, "middle", y_name, " transform=\"rotate(-90 14 139)\"");
  double key = kLeft;
  for (size_t c = 0; c < curves.size(); ++c) {
    const char* const color = c == 0 ? "one" : "two";
    const Curve& curve = curves[c];
    svg << "<polyline class=\"" << color << "\" points=\"";
    for (size_t i = 0; i < curve.points.size(); ++i)
      svg << (i == 0 ? "" : " ") << fixed(x_of(curve.points[i].x), 1) << ','
          << fixed(y_of(curve.points[i].y), 1);
    svg << "\"/>\n";
    for (const Point& point : curve.points) {
      if (!dots) break;
      svg << "<circle class=\"dot " << color << "\" cx=\"" << fixed(x_of(point.x), 1) << "\" cy=\""
          << fixed(y_of(point.y), 1) << "\" r=\"4\"><title>" << curve.name << ": " << number_text(point.y)
          << " at " << number_text(point.x) << "</title></circle>\n";
    }
    svg << "<rect class=\"key " << color << "\" x=\"" << fixed(key, 0)
        << "\" y=\"4\" width=\"12\" height=\"12\" rx=\"2\"/>\n"
        << text_at(key + 18, 14, "start", curve.name);
    key += 48 + 6.5 * static_cast<double>(std::string(curve.name).size());
  }
  svg << "</svg>\n";
  return svg.str();
}

std::string section(const char* title, const std::string& text, const std::string& drawing) {
  return std::string("<h2>") + title + "</h2>\n<p>" + text + "</p>\n" + drawing;
}

std::string over_load(const std::vector<SimulateResult>& results) {
  const auto curve = [&](const char* name, const std::function<double(const SimulateResult&)>& value) {
    Curve made{name, {}};
    for (const SimulateResult& result : results) made.points.push_back({result.rate, value(result)});
    std::ranges::sort(made.points, {}, &Point::x);
    return made;
  };
  const char* const load = "requests that arrive a second";
  const auto latency = [&](const char* name, Percentiles SimulateResult::*values) {
    return draw_curves(name, load, "ms",
                       {curve("p50", [&](const SimulateResult& r) { return (r.*values).at(50); }),
                        curve("p99", [&](const SimulateResult& r) { return (r.*values).at(99); })},
                       true);
  };
  return section(
             "Goodput over load", "Requests a second that finish, and that finish within the bounds.",
             draw_curves(
                 "Goodput over load", load, "requests a second",
                 {curve("within the bounds", [](const SimulateResult& r) { return r.per_second(r.good); }),
                  curve("finished", [](const SimulateResult& r) { return r.per_second(r.finished); })},
                 true)) +
         section("Time to the first token", "From the arrival of a request, in milliseconds.",
                 latency("Time to the first token over load", &SimulateResult::ttft_ms)) +
         section("Time of further tokens", "On average over a request, in milliseconds for each token.",
                 latency("Time of further tokens over load", &SimulateResult::tpot_ms)) +
         section(
             "Hit rate", "Share of the prompt tokens that were cached when their request was admitted first.",
             draw_curves("Hit rate over load", load, "share",
                         {curve("hit rate", [](const SimulateResult& r) { return r.hit_rate(); })}, true));
}

std::string over_requests(const SimulateResult& result) {
  const auto latency = [&](const char* name, const Percentiles& values) {
    Curve curve{name, {}};
    for (int percent = 0; percent <= 100; ++percent)
      curve.points.push_back({static_cast<double>(percent), values.at(percent)});
    return draw_curves(name, "percent of the requests that wait at most so long", "ms", {curve}, false);
  };
  return section("Time to the first token", "From the arrival of a request, in milliseconds.",
                 latency("first token", result.ttft_ms)) +
         section("Time of further tokens", "On average over a request, in milliseconds for each token.",
                 latency("further tokens", result.tpot_ms));
}

std::string result_table(const std::vector<SimulateResult>& results) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th>rate</th><th>finished /s</th><th>goodput "
      "/s</th><th>goodput</th>"
      "<th>TTFT p50</th><th>p99</th><th>TPOT p50</th><th>p99</th><th>preemptions</th><th>hit "
      "rate</th></tr>\n";
  for (const SimulateResult& r : results) {
    html += "<tr>";
    for (const std::string& cell :
         {fixed(r.rate, 3), fixed(r.per_second(r.finished), 3), fixed(r.per_second(r.good), 3),
          fixed(100 * r.goodput(), 2) + " %", fixed(r.ttft_ms.at(50), 1) + " ms",
          fixed(r.ttft_ms.at(99), 1) + " ms", fixed(r.tpot_ms.at(50), 2) + " ms",
          fixed(r.tpot_ms.at(99), 2) + " ms", grouped(r.preemptions), fixed(100 * r.hit_rate(), 2) + " %"})
      html += "<td>" + cell + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string simulation_page(const SimulateOptions& options, const std::vector<SimulateResult>& results) {
  std::string bounds;
  if (options.ttft_ms != 0)
    bounds += " The first token is due within " + number_text(options.ttft_ms) + " ms.";
  if (options.tpot_ms != 0)
    bounds += " Further ones are due within " + number_text(options.tpot_ms) + " ms each.";
  const std::string title = "Simulation of " + counted(results[0].requests, "request");
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>kvcache "
         "simulate</title>\n<style>" +
         std::string(kStyle) + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n<p>Policy " +
         options.scheduler + ", admission " + options.admission + ", at most " +
         counted(options.max_running, "request") + " and " + counted(options.max_tokens, "token") +
         " a step." + bounds + "</p>\n" +
         (results.size() > 1 ? over_load(results) : over_requests(results[0])) + "<h2>All rates</h2>\n" +
         result_table(results) + "</body>\n</html>\n";
}

}  // namespace kvcli
