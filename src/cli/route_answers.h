// SPDX-License-Identifier: Apache-2.0
// What `kvcache route` knows: an index and the loads of workers; a line of JSON in, a line of JSON out.
#pragma once
#include <kvcache/index.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvcli {

struct RouteOptions {
  std::string listen = "127.0.0.1:0";  // or unix:/path
  uint32_t block_size = 16;
  uint64_t max_blocks = uint64_t{1} << 20;
  uint32_t max_workers = 256;
  uint32_t ttl_seconds = 0;  // 0: silent workers stay
  double load_weight = 1, far_weight = 0.5;
};

class RouteAnswers {
 public:
  explicit RouteAnswers(const RouteOptions& options);
  /// The answer to a line, without its end. `now_ns`: of a clock that never goes back.
  std::string answer(const std::string& line, uint64_t now_ns);
  /// Removes silent workers.
  void expire(uint64_t now_ns);
  bool stopped() const { return stopped_; }

 private:
  using Json = nlohmann::ordered_json;
  Json answer_request(const Json& request, uint64_t now_ns);
  Json tell_worker(const Json& request, uint64_t now_ns);
  Json apply(uint64_t worker, const Json& request, uint64_t now_ns);
  Json route(const Json& request);
  Json stats() const;

  const RouteOptions options_;
  kvc::Index index_;
  kvc::Index::Matches matches_;
  std::map<uint64_t, double> loads_;  // of all workers
  std::vector<int32_t> tokens_;
  std::vector<kvc::Digest> digests_;
  std::vector<kvc_event> events_;
  bool stopped_ = false;
};

}  // namespace kvcli
