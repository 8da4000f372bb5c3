// SPDX-License-Identifier: Apache-2.0
// Random managers and random operations on them. Prompts are cut from a few long texts over a small alphabet,
// so that sharing is frequent; pools are small, so that eviction is frequent; about one operation in six is
// one that must be refused.
#ifndef KVCACHE_TESTS_PROPERTY_GENERATOR_H_
#define KVCACHE_TESTS_PROPERTY_GENERATOR_H_

#include <utility>
#include <vector>

#include "property/ops.h"
#include "property/random.h"
#include "property/world.h"

Setup random_setup(Random& random);

class Generator {
 public:
  Generator(Random& random, const Setup& setup);
  Op next(const World& world);  // the operation's tag is new

 private:
  model::Text prompt();
  model::Text sound_prompt();
  std::vector<int32_t> tokens(uint64_t count);
  model::Options options(const World& world);
  uint64_t any_namespace();  // tag of a namespace
  uint64_t request(const World& world,
                   int admitted);  // 1 admitted, 0 waiting, -1 any; now and then another or a dead one
  uint64_t commit_length(const World& world, uint64_t tag, uint64_t more_known);
  uint64_t cut_length(const World& world, uint64_t tag);
  void external(const World& world, Op& op);
  void hint(const World& world, Op& op);
  void step(const World& world, Op& op);
  void tell_story(StepOp& s);
  std::vector<model::Span> later_spans(const World& world, uint64_t tag);
  uint64_t retired();
  void learn(const World& world);

  Random& random_;
  const Setup setup_;
  const uint64_t B_;
  const bool switches_;  // prefix caching off, for a while: elsewhere as much is cached as ever
  uint64_t alphabet_, last_tag_ = 0, fence_lag_;
  Kind last_kind_ = Kind::kProbe;
  uint64_t last_target_ = 0;
  std::vector<std::pair<Kind, uint64_t>> story_;  // what comes next, and to which tag
  std::vector<model::Text> texts_;
  std::vector<uint64_t> requests_, pins_,
      namespaces_;                            // tags made so far, the dead ones included for a while
  std::vector<uint64_t> admitted_, waiting_;  // alive now
};

#endif  // KVCACHE_TESTS_PROPERTY_GENERATOR_H_
