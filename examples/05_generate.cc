// SPDX-License-Identifier: Apache-2.0
// A small inference engine of the Llama architecture (RMSNorm, rotary embedding, grouped-query attention,
// SwiGLU) over the public headers alone: the manager says where keys and values go and what is known already,
// the storage keeps them and computes attention. Prints the tokens and the time to the first one with the
// prefix cache off and on, and shows that the tokens really come from the cache: with one block spoiled they
// change.
//
//   05_generate [FILE.safetensors [HEADS [THETA]]]   float32, float16 or bfloat16 weights with Hugging Face's
//   names
//                                                    (Llama); without a file a small random model
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <kvcache.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama.h"

namespace {

using llama::Floats;
using llama::Model;

// ---- the engine

struct Answer {
  std::vector<int32_t> tokens;
  uint64_t cached = 0;
  double first_ms = 0;
};

class Engine {
 public:
  explicit Engine(const Model& model)
      : manager_(kBlocks, kBlockSize),
        storage_(llama::Llama::storage_of(model, kBlocks, kBlockSize)),
        llama_(model, storage_) {}

  // Greedy: the most likely token each time. With `share` the prefix cache may serve the prompt.
  Answer generate(const std::vector<int32_t>& prompt, size_t count, bool share) {
    const auto start = std::chrono::steady_clock::now();
    auto config = kvc::make<kvc_request_config>();
    config.flags = share ? 0 : KVC_REQUEST_NO_READ;
    kvc::Request request = manager_.allocate(prompt, &config);
    if (!request) throw std::runtime_error("the prompt does not fit");
    Answer answer;
    answer.cached = request.info().num_cached;
    std::vector<int32_t> all = prompt;
    for (size_t done = answer.cached; answer.tokens.size() < count;) {
      const Floats logits = forward(request, {all.begin() + static_cast<ptrdiff_t>(done), all.end()}, done);
      request.commit(all.size());
      done = all.size();
      const auto next = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (answer.tokens.empty()) {
        answer.first_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      }
      answer.tokens.push_back(next);
      all.push_back(next);
      if (!request.append({&next, 1})) throw std::runtime_error("the cache is full");
    }
    return answer;
  }

  // The block that holds position 0 of a cached prompt.
  int32_t first_block(const std::vector<int32_t>& prompt) {
    kvc::Request request = manager_.allocate(prompt);
    int32_t table[kBlocks];
    request.table(table);
    return table[0];
  }
  void spoil(int32_t block) { storage_.zero({&block, 1}); }

 private:
  static constexpr uint32_t kBlocks = 256, kBlockSize = 16;

  // Logits after the last of `tokens`, which stand from `position` on; earlier ones are in the storage.
  Floats forward(const kvc::Request& request, const std::vector<int32_t>& tokens, size_t position) {
    llama::Batch batch;
    batch.tokens = tokens;
    batch.positions.resize(tokens.size());
    std::iota(batch.positions.begin(), batch.positions.end(), static_cast<int64_t>(position));
    batch.slots.resize(tokens.size());
    request.slots(batch.slots, position);
    batch.end_request();
    batch.stride = (position + tokens.size() + kBlockSize - 1) / kBlockSize + 1;
    batch.tables.resize(batch.stride);
    request.table(batch.tables);
    batch.asked = {tokens.size() - 1};
    return llama_.forward(batch);
  }

  kvc::Manager manager_;
  kvc::Storage storage_;
  llama::Llama llama_;
};

void print(const char* title, const Answer& answer) {
  std::printf("%-22s %3d cached tokens, first token after %7.2f ms:", title, static_cast<int>(answer.cached),
              answer.first_ms);
  for (const int32_t token : answer.tokens) std::printf(" %d", token);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const Model model = argc > 1
                          ? llama::read_model(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 32,
                                              argc > 3 ? std::strtof(argv[3], nullptr) : 10000.0f)
                          : llama::random_model(2, 4, 1.6f);
  Engine engine(model);
  std::vector<int32_t> prompt(200);
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<int32_t>((i * i * 31 + 7 * i + 3) % model.vocab);

  constexpr size_t kTokens = 48;
  const Answer off = engine.generate(prompt, kTokens, false);
  print("prefix cache off:", off);
  const Answer on = engine.generate(prompt, kTokens, true);
  print("prefix cache on:", on);
  engine.spoil(engine.first_block(prompt));
  const Answer spoiled = engine.generate(prompt, kTokens, true);
  print("with a spoiled block:", spoiled);

  const size_t distinct = std::set<int32_t>(off.tokens.begin(), off.tokens.end()).size();
  const bool good =
      off.tokens == on.tokens && off.cached == 0 && on.cached == 192 && spoiled.tokens != off.tokens;
  std::printf(
      "%d distinct tokens; the same with and without the cache: %s; other ones from a spoiled block: %s\n",
      static_cast<int>(distinct), off.tokens == on.tokens ? "yes" : "NO",
      spoiled.tokens != off.tokens ? "yes" : "NO");
  return good && (argc > 1 || distinct >= 20) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
