// SPDX-License-Identifier: Apache-2.0
// The report of `kvcache simulate`. The JSON keys are an interface: add keys, do not rename them. Equal
// commands print the same but for host_us_per_step and host_us, which are measured.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/errors.h"
#include "cli/simulate.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson percentiles_json(const Percentiles& values) {
  OrderedJson json = {{"mean", values.mean()}};
  for (const int percent : {50, 90, 99, 100}) json["p" + std::to_string(percent)] = values.at(percent);
  return json;
}

OrderedJson result_json(const SimulateOptions& options, const SimulateResult& result) {
  OrderedJson json;
  json["rate"] = result.rate;
  json["requests"] = result.requests;
  json["finished"] = result.finished;
  json["rejected"] = result.rejected;
  json["failed"] = result.failed;
  json["starved"] = result.requests - result.finished - result.rejected - result.failed;
  json["makespan_seconds"] = result.seconds();
  json["requests_per_second"] = result.per_second(result.finished);
  json["output_tokens_per_second"] = result.per_second(result.output_tokens);
  json["busy"] = result.per_second(result.busy_ns) * 1e-9;
  json["ttft_ms"] = percentiles_json(result.ttft_ms);
  json["tpot_ms"] = percentiles_json(result.tpot_ms);
  json["goodput"] = result.goodput();
  json["goodput_per_second"] = result.per_second(result.good);
  json["preemptions"] = result.preemptions;
  json["recomputed_tokens"] = result.recomputed_tokens;
  json["prompt_tokens"] = result.prompt_tokens;
  json["cached_tokens"] = result.cached_tokens;
  json["hit_rate"] = result.hit_rate();
  json["output_tokens"] = result.output_tokens;
  json["planned_tokens"] = result.planned_tokens;
  json["plans"] = result.plans;
  json["mean_batch"] = result.mean_batch();
  json["host_us_per_step"] = result.host_us_per_step();
  json["host_us"] = {{"p50", result.host_steps.percentile_us(50)},
                     {"p99", result.host_steps.percentile_us(99)}};
  json["scheduler"] = options.scheduler;
  json["admission"] = options.admission;
  return json;
}

void print_result(const SimulateOptions& options, const SimulateResult& result, std::ostream& out) {
  const auto times = [&](const char* name, const Percentiles& values, const char* note) {
    row(out, name, fixed(values.at(50), 2) + " ms",
        "p90 " + fixed(values.at(90), 2) + ", p99 " + fixed(values.at(99), 2) + "; " + note);
  };
  out << "Requests\n";
  row(out, "rate", result.rate == 0 ? "all at once" : fixed(result.rate, 3) + " /s", "arrivals");
  row(out, "finished", grouped(result.finished), fixed(result.per_second(result.finished), 3) + " /s");
  row(out, "rejected", grouped(result.rejected), "longer than the pool");
  if (result.failed != 0) row(out, "failed", grouped(result.failed), "the pool is too small for them");
  row(out, "goodput", fixed(100 * result.goodput(), 2) + " %",
      fixed(result.per_second(result.good), 3) + " /s" +
          (options.ttft_ms == 0 ? "" : ", first token within " + number_text(options.ttft_ms) + " ms") +
          (options.tpot_ms == 0 ? "" : ", further ones within " + number_text(options.tpot_ms) + " ms each"));
  row(out, "preemptions", grouped(result.preemptions));
  out << "Virtual time\n";
  row(out, "makespan", fixed(result.seconds(), 3) + " s",
      "the device is busy for " + fixed(result.per_second(result.busy_ns) * 1e-7, 1) + " % of it");
  times("first token (p50)", result.ttft_ms, "after the arrival");
  times("further tokens (p50)", result.tpot_ms, "each, on average over a request");
  out << "Tokens\n";
  row(out, "prompt", grouped(result.prompt_tokens));
  row(out, "cached", grouped(result.cached_tokens), "hit rate " + fixed(result.hit_rate(), 4));
  row(out, "output", grouped(result.output_tokens),
      fixed(result.per_second(result.output_tokens), 1) + " /s");
  row(out, "computed again", grouped(result.recomputed_tokens), "after preemptions");
  out << "Steps\n";
  row(out, "plans", grouped(result.plans), "of " + fixed(result.mean_batch(), 1) + " requests on average");
  row(out, "scheduler", fixed(result.host_us_per_step(), 2) + " us",
      "of real time a step, p50 " + fixed(result.host_steps.percentile_us(50), 2) + ", p99 " +
          fixed(result.host_steps.percentile_us(99), 2));
}

/// One line for each rate.
void print_rates(const std::vector<SimulateResult>& results, std::ostream& out) {
  constexpr int kWidths[] = {12, 12, 12, 12, 12, 12, 12, 12, 12, 10, 12};
  const auto line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) out << std::setw(kWidths[i]) << cells[i];
    out << '\n';
  };
  line({"rate", "finished/s", "goodput/s", "goodput", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99",
        "preempted", "hit rate", "host us"});
  for (const SimulateResult& result : results)
    line({fixed(result.rate, 3), fixed(result.per_second(result.finished), 3),
          fixed(result.per_second(result.good), 3), fixed(100 * result.goodput(), 2) + " %",
          fixed(result.ttft_ms.at(50), 1), fixed(result.ttft_ms.at(99), 1), fixed(result.tpot_ms.at(50), 2),
          fixed(result.tpot_ms.at(99), 2), grouped(result.preemptions), fixed(result.hit_rate(), 4),
          fixed(result.host_us_per_step(), 2)});
}

}  // namespace

void run_simulation(const Trace& trace, const SimulateOptions& options, bool as_json, std::ostream& out) {
  const std::vector<double> rates = check_simulation(trace, options);
  const StepTime step_time = StepTime::parse(options.step_model);
  std::ofstream page;
  if (!options.html.empty()) {
    page.open(options.html, std::ios::binary | std::ios::trunc);
    if (!page) throw InputError(options.html + ": " + std::strerror(errno) + "; give a writable file");
  }
  std::vector<SimulateResult> results;
  results.reserve(rates.size());
  for (const double rate : rates) results.push_back(simulate(trace, options, step_time, rate));
  if (as_json) {
    OrderedJson json = OrderedJson::array();
    for (const SimulateResult& result : results) json.push_back(result_json(options, result));
    out << (options.rates.empty() ? json[0] : OrderedJson{{"rates", json}}).dump(2) << '\n';
  } else if (options.rates.empty()) {
    print_result(options, results[0], out);
  } else {
    print_rates(results, out);
  }
  if (options.html.empty()) return;
  page << simulation_page(options, results);
  if (!page.flush())
    throw std::runtime_error("the page was not written completely; check the space on the disk");
}

}  // namespace kvcli
