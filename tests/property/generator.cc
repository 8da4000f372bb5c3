// SPDX-License-Identifier: Apache-2.0
// Random managers and operations; see generator.h.
#include "property/generator.h"

#include <algorithm>

namespace {

model::Group chunks(Random& random, uint64_t B) {
  model::Group g;
  g.window = true;
  g.chunk_tokens = random.chance(60) ? B * random.between(1, 5) : random.between(1, 5 * B);
  if (random.chance(80)) g.retention = B * random.between(1, 3);
  if (random.chance(6)) g.chunk_tokens = UINT64_MAX - random.below(2 * B + 2);
  return g;
}

model::Group states(Random& random, uint64_t B) {
  model::Group g;
  g.window = g.state = true;
  if (random.chance(60)) g.retention = B * random.between(1, 4);
  return g;
}

model::Group window(Random& random, uint64_t B, bool sinks) {
  model::Group g;
  g.window = true;
  g.window_tokens = random.chance(10) ? 1 : random.between(1, random.chance(15) ? B + 1 : 4 * B + 1);
  if (sinks) g.sink_tokens = random.below(2 * B + 1);
  if (random.chance(40)) g.retention = B * random.between(1, 4);
  if (random.chance(6)) g.window_tokens = UINT64_MAX - random.below(2 * B + 2);
  if (random.chance(3)) g.retention = UINT64_MAX / B * B;
  if (sinks && random.chance(3)) g.sink_tokens = UINT32_MAX;
  return g;
}

void random_policy(Random& random, model::Config& c) {
  c.policy = static_cast<uint32_t>(random.below(3));
  if (c.policy == KVC_POLICY_FREQUENCY) {
    static const double kWeights[] = {0.1, 0.5, 1, 3, 1000};
    c.weight = kWeights[random.below(5)];
    c.history = random.chance(30) ? random.between(1, 8) : 64;
  } else if (c.policy == KVC_POLICY_FRAGMENTATION) {
    static const double kWeights[] = {0, 0.3, 0.9, 1};
    c.weight = kWeights[random.below(4)];
    if (c.groups.size() == 2 && c.pools.size() == 1 && random.chance(70))  // a pool each: fragments are born
      c.pools.push_back(random.between(4, 16)), c.groups[1].pool = 1;
  }
}

}  // namespace

Setup random_setup(Random& random) {
  static const uint64_t kBlockSizes[] = {1, 2, 3, 4, 4, 16};
  Setup setup;
  model::Config& c = setup.config;
  const uint64_t B = c.block_size = kBlockSizes[random.below(6)];
  uint64_t low = 4, high = random.chance(90) ? 20 : 26;
  switch (random.below(48)) {
    case 2:
      c.groups = {model::Group{}, model::Group{}}, low = 8;
      break;
    case 3:
      c.groups = {model::Group{}, window(random, B, false)}, low = 8;
      break;
    case 4:
      c.groups = {window(random, B, false)};
      break;
    case 5:
      c.groups = {window(random, B, true)};
      break;
    case 6:
      c.groups = {model::Group{}, window(random, B, true)}, c.groups[1].pool = 1;
      break;
    case 7:
      c.groups = {window(random, B, true), model::Group{}, window(random, B, false)}, low = 10;
      break;
    case 10:
      c.groups = {chunks(random, B)};
      break;
    case 11:
      c.groups = {model::Group{}, chunks(random, B)}, c.groups[1].pool = random.below(2), low = 8;
      break;
    case 12:
      c.groups = {chunks(random, B), model::Group{}, window(random, B, true), chunks(random, B)}, low = 12;
      break;
    case 14:
    case 15:
      c.groups = {model::Group{}, states(random, B)}, c.groups[1].pool = random.chance(70), low = 6;
      break;
    case 16:
      c.groups = {states(random, B)}, low = 3, high = 9;
      break;
    case 17:
      c.groups = {states(random, B), model::Group{}, window(random, B, true), states(random, B)}, low = 12;
      break;
    case 18:  // positions outlive their blocks, and run out
      c.groups = {states(random, B)}, low = 3, high = 9;
      c.max_nodes = random.between(2, 24);
      break;
    case 19:
      c.groups = {random.chance(70) ? window(random, B, random.chance(30)) : chunks(random, B)};
      c.max_nodes = random.between(2, 40), high = 24;
      break;
    case 20:
      c.groups = {window(random, B, false), states(random, B)}, c.groups[1].pool = random.chance(70);
      c.max_nodes = random.between(2, 30), low = 5, high = 12;
      break;
    default:  // the most usual one, which fills its pool
      c.groups = {model::Group{}};
  }
  for (size_t pools = c.groups.size() == 2 && c.groups[1].pool == 1 ? 2 : 1; pools > 0; --pools)
    c.pools.push_back(random.between(low, std::max(low + 1, high)));
  for (model::Group& g : c.groups) {
    if (g.state && g.pool == 1 && c.pools.size() == 2 && random.chance(80)) c.pools[1] = random.between(4, 7);
    const bool alone = c.groups.size() == 1 || (c.pools.size() == 2 && g.pool == 1);
    if (g.state && alone && random.chance(25)) g.max_checkpoints = random.between(1, 6);
  }
  const uint64_t cross = random.chance(35) ? random.between(1, 2) : 0;
  for (uint64_t i = 0; i < cross; ++i) {  // in a pool that there is, or in one of its own
    const bool own = random.chance(40) ||
                     std::any_of(c.groups.begin(), c.groups.end(), [](auto& g) { return g.max_checkpoints; });
    if (own) c.pools.push_back(random.between(low, low + 4));
    c.cross.push_back(own ? c.pools.size() - 1 : random.below(c.pools.size()));
  }
  c.null_block = random.chance(20);
  c.no_cache = random.chance(2);
  c.zero_always = random.chance(20), c.zero_cross_namespace = random.chance(40);
  if (random.chance(20)) c.watermark = std::min(random.between(1, 3), low - (c.null_block ? 2u : 1u));
  c.max_requests = random.between(4, 9);
  c.max_tokens = B * random.between(8, 16) + random.below(B);
  c.vocab = random.chance(50) ? 32 : 0;
  setup.event_capacity = random.chance(60)   ? Setup::kAllEvents
                         : random.chance(60) ? random.between(1, 40)
                                             : 0;
  setup.fill_id = random.chance(50) ? -1 : 0;
  random_policy(random, c);
  if (random.chance(15)) c.max_quotas = static_cast<uint32_t>(random.between(1, 3));
  c.hints = random.chance(60) && c.max_nodes == 0;
  const bool has_states =
      std::any_of(c.groups.begin(), c.groups.end(), [](const model::Group& g) { return g.state; });
  c.fills = random.chance(50) && !has_states;
  if (c.fills && c.groups.size() == 1 && c.cross.empty() && random.chance(20)) {  // more groups that fill
    c.groups.push_back(random.chance(70) ? window(random, B, random.chance(30)) : chunks(random, B));
    for (uint64_t& count : c.pools) count = std::max<uint64_t>(count, 12);
  }
  if (c.max_requests != 5) c.near = c.max_tokens * 7 % (4 * B);
  c.headroom = random.chance(50) && !has_states;
  c.partial = random.chance(50) && !has_states;
  if (random.chance(60))
    for (const uint64_t count : c.pools) c.rooms.push_back(count + random.below(count / 2 + 1));
  return setup;
}

Generator::Generator(Random& random, const Setup& setup)
    : random_(random),
      setup_(setup),
      B_(setup.config.block_size),
      switches_(!setup.config.no_cache && random.chance(12)) {
  alphabet_ = random_.between(2, 4);
  fence_lag_ = random_.below(3);
  for (int i = 0; i < 4; ++i) {
    model::Text text;
    text.tokens = tokens(setup.config.max_tokens);
    if (i > 0 && random_.chance(60)) {  // texts share beginnings
      const auto shared = static_cast<ptrdiff_t>(random_.below(text.tokens.size()));
      std::copy(texts_[0].tokens.begin(), texts_[0].tokens.begin() + shared, text.tokens.begin());
    }
    if (random_.chance(30))
      for (uint64_t first = random_.below(3 * B_); first + 2 < text.tokens.size() && text.spans.size() < 3;) {
        text.spans.push_back(
            {first, random_.between(1, 2 * B_), static_cast<int32_t>(random_.between(1, 2))});
        first += text.spans.back().count + random_.below(3 * B_);
      }
    if (random_.chance(30)) {  // in any order, and some share tokens
      for (uint64_t n = random_.between(1, 5); n != 0; --n)
        text.spans.push_back({random_.below(6 * B_), random_.between(1, random_.chance(30) ? 5 * B_ : B_),
                              static_cast<int32_t>(random_.between(1, 2))});
    }
    texts_.push_back(text);
  }
}

std::vector<int32_t> Generator::tokens(uint64_t count) {
  std::vector<int32_t> out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(random_.below(alphabet_));
  return out;
}

model::Text Generator::prompt() {
  const model::Text& from = texts_[random_.below(texts_.size())];
  const uint64_t most = std::min<uint64_t>(from.tokens.size(), B_ * 9);
  uint64_t n =
      random_.chance(50) ? random_.below(most + 1) : B_ * random_.below(most / B_ + 1) + random_.below(3);
  if (n > 0 && random_.chance(30)) --n;
  n = std::min(n, most);
  model::Text text;
  text.tokens.assign(from.tokens.begin(), from.tokens.begin() + static_cast<ptrdiff_t>(n));
  for (const model::Span& span : from.spans)
    if (span.first + span.count <= n) text.spans.push_back(span);
  if (random_.chance(30)) std::reverse(text.spans.begin(), text.spans.end());
  if (!text.spans.empty() && random_.chance(10)) text.spans.push_back(text.spans.front());
  if (random_.chance(50)) {
    const std::vector<int32_t> tail = tokens(random_.below(3 * B_));
    text.tokens.insert(text.tokens.end(), tail.begin(), tail.end());
  }
  if (!text.spans.empty() && random_.chance(15)) text.spans.back().digest = 3;
  if (random_.chance(1) && !text.tokens.empty())
    text.tokens.back() = random_.chance(50) ? -1 : 40;  // 40 is wrong if there is a vocabulary
  if (random_.chance(1)) text.tokens = tokens(setup_.config.max_tokens + 1), text.spans.clear();
  return text;
}

// For calls whose refusals of wrong tokens are not part of the model.
model::Text Generator::sound_prompt() {
  for (;;) {
    model::Text text = prompt();
    const bool wrong = !text.tokens.empty() && (text.tokens.back() < 0 || text.tokens.back() > 31);
    if (!wrong && text.tokens.size() <= setup_.config.max_tokens) return text;
  }
}

uint64_t Generator::any_namespace() {
  const uint64_t common = setup_.config.max_quotas ? 40 : 70;
  return namespaces_.empty() || random_.chance(common) ? 0 : namespaces_[random_.below(namespaces_.size())];
}

model::Options Generator::options(const World& world) {
  model::Options o;
  o.ns = any_namespace();
  if (random_.chance(8)) o.max_cached = random_.between(1, 6 * B_);
  if (random_.chance(20)) o.slots = random_.between(1, 3 * B_);
  if (random_.chance(12))
    o.external = random_.below(random_.chance(50) ? 2 * B_ : std::min(12 * B_, setup_.config.max_tokens));
  if (random_.chance(15)) o.lookahead = random_.between(1, B_ + 1);
  if (setup_.config.headroom && random_.chance(35)) o.headroom = static_cast<uint32_t>(random_.between(1, 3));
  if (random_.chance(8)) o.drop_tail = static_cast<uint32_t>(random_.between(1, 2));
  if (random_.chance(6)) o.flags |= KVC_REQUEST_NO_READ;
  if (random_.chance(6)) o.flags |= KVC_REQUEST_NO_WRITE;
  if (random_.chance(10)) o.flags |= KVC_REQUEST_FULL_MUST_FIT;
  if (random_.chance(6)) o.flags |= KVC_REQUEST_RESUMED;
  if (!setup_.config.cross.empty() && random_.chance(70)) {
    o.cross = random_.chance(60) ? 2 * B_ : random_.between(1, 3 * B_);
    if (random_.chance(80)) o.cross_digest = static_cast<int32_t>(random_.between(1, 2));
  }
  if (setup_.config.fills) {
    if (random_.chance(60)) o.flags |= KVC_REQUEST_PUBLISH_ENQUEUED;
    if (random_.chance(50)) o.flags |= KVC_REQUEST_SHARE_FILLING;
    if (random_.chance(50)) o.wait_until = world.model().now() + random_.below(6);
  }
  return o;
}

uint64_t Generator::request(const World& world, int admitted) {
  (void)world;
  if (requests_.empty()) return 0;
  const std::vector<uint64_t>& wanted = admitted == 0 ? waiting_ : admitted_;
  if (admitted == -1 && !waiting_.empty() && random_.chance(30))
    return waiting_[random_.below(waiting_.size())];
  if (wanted.empty() || random_.chance(4)) return requests_[random_.below(requests_.size())];
  if (random_.chance(30)) return wanted.back();  // the youngest, a forked one perhaps
  return wanted[random_.below(wanted.size())];
}

uint64_t Generator::commit_length(const World& world, uint64_t tag, uint64_t more_known) {
  auto it = world.model().requests.find(world.model_id(tag));
  if (it == world.model().requests.end()) return random_.below(4);
  const model::Request& r = it->second;
  const uint64_t most = std::min<uint64_t>(r.text.tokens.size() + more_known, r.capacity);
  if (random_.chance(3)) return most + 1;
  if (random_.chance(2) && r.committed > 0) return r.committed - 1;
  if (const uint64_t next = world.model().next_checkpoint(r); next && next <= most && random_.chance(50))
    return next;
  return random_.chance(70) || most < r.committed ? most : random_.between(r.committed, most);
}

uint64_t Generator::cut_length(const World& world, uint64_t tag) {
  auto it = world.model().requests.find(world.model_id(tag));
  if (it == world.model().requests.end()) return random_.below(4);
  const uint64_t known = it->second.text.tokens.size();
  if (random_.chance(4)) return known + 1;
  return random_.chance(60) ? known - random_.below(std::min(known, B_ + 2) + 1) : random_.below(known + 1);
}

// Over tokens that come later, mostly; some that the request has already, or that are wrong.
std::vector<model::Span> Generator::later_spans(const World& world, uint64_t tag) {
  std::vector<model::Span> spans;
  auto it = world.model().requests.find(world.model_id(tag));
  const model::Request none, &r = it == world.model().requests.end() ? none : it->second;
  for (uint64_t n = random_.between(1, 3); n != 0; --n) {
    if (!r.text.spans.empty() && random_.chance(15)) {
      const model::Span& known = r.text.spans[random_.below(r.text.spans.size())];
      if (known.digest > 0) spans.push_back(known);
      continue;
    }
    const uint64_t from = random_.chance(95) ? std::max(r.committed, r.published * B_) : 0;
    spans.push_back({from + random_.below(2 * B_), random_.chance(98) ? random_.between(1, 2 * B_) : 0,
                     static_cast<int32_t>(random_.between(1, 2))});
  }
  return spans;
}

uint64_t Generator::retired() {
  return random_.chance(2) ? kFuture
                           : fence_lag_ + random_.below(2) - (fence_lag_ && random_.chance(30) ? 1 : 0);
}

void Generator::learn(const World& world) {
  admitted_.clear(), waiting_.clear();
  const auto& alive = world.model().requests;
  for (uint64_t tag : requests_) {
    auto it = alive.find(world.model_id(tag));
    if (it != alive.end()) (it->second.admitted ? admitted_ : waiting_).push_back(tag);
  }
  if (requests_.size() > 40)
    std::erase_if(requests_,
                  [&](uint64_t tag) { return tag + 400 < last_tag_ && !alive.count(world.model_id(tag)); });
}

void Generator::external(const World& world, Op& op) {
  const model::Model& m = world.model();
  std::vector<int> held;
  for (size_t id = 0; id < m.num_blocks(); ++id)
    for (int k = 0; k < m.block(static_cast<int>(id)).external; ++k) held.push_back(static_cast<int>(id));
  for (size_t i = held.size(); i > 1; --i) std::swap(held[i - 1], held[random_.below(i)]);
  if (op.kind == Kind::kRelease) {
    held.resize(std::min<size_t>(held.size(), random_.between(1, 4)));
    op.blocks = held;
    if (random_.chance(15))
      op.blocks.insert(op.blocks.begin() + static_cast<ptrdiff_t>(random_.below(op.blocks.size() + 1)), -1);
    const uint64_t fault = random_.below(100);
    if (fault < 4)
      op.blocks.push_back(static_cast<int>(m.num_blocks()));
    else if (fault < 6)
      op.blocks.push_back(-2);
    else if (fault < 12 || op.blocks.empty())
      op.blocks.assign(1, static_cast<int>(m.num_blocks()) - 1);
    return;
  }
  // Publish: blocks of the group that are not published yet at the first positions of a text, now and then
  // something wrong.
  op.group = random_.below(setup_.config.groups.size());
  op.text = sound_prompt();
  op.ns = any_namespace();
  const uint64_t most = op.text.tokens.size() / B_;
  const bool strict = random_.chance(85);
  for (int id : held) {
    if (op.blocks.size() >= most) break;
    const model::Block& b = m.block(id);
    const bool twice = std::count(op.blocks.begin(), op.blocks.end(), id) > 0;
    if (strict && (twice || b.published || b.requests || b.pool != setup_.config.groups[op.group].pool))
      continue;
    if (random_.chance(10) && op.blocks.size() + 1 < most) op.blocks.push_back(-1);
    op.blocks.push_back(id);
  }
  if (random_.chance(4)) op.blocks.push_back(static_cast<int>(m.num_blocks()) - 1);
}

void Generator::hint(const World& world, Op& op) {
  const uint64_t now = world.model().now();
  op.priority = static_cast<uint32_t>(random_.chance(3)    ? 101
                                      : random_.chance(50) ? 35 + random_.below(2)
                                                           : random_.below(101));
  if (random_.chance(60)) op.until = now + random_.between(1, 6);
  if (random_.chance(4)) op.until = now - random_.below(std::min<uint64_t>(now, 2) + 1);
  if (random_.chance(4)) op.until = UINT64_MAX - random_.below(2);
}

void Generator::step(const World& world, Op& op) {
  StepOp& s = op.step;
  s.in.retired = retired();
  if (random_.chance(30)) s.in.now = world.model().now() + random_.below(3);
  if (random_.chance(1) && world.model().now() > 1) s.in.now = world.model().now() - 1;
  s.in.past_refusal = random_.chance(20), s.in.all_or_none = random_.chance(12);
  s.whole_rows = random_.chance(5), s.move_rows = random_.chance(5);
  s.commits = random_.chance(85), s.extends = random_.chance(85), s.with_ids = random_.chance(75);
  std::vector<uint64_t> running = admitted_;
  for (size_t i = running.size(); i > 1; --i) std::swap(running[i - 1], running[random_.below(i)]);
  running.resize(random_.below(running.size() + 1));
  if (random_.chance(6) && !requests_.empty()) {
    const uint64_t other = random_.chance(15) ? kForeign + random_.below(kForeigners)
                                              : requests_[random_.below(requests_.size())];
    if (std::count(running.begin(), running.end(), other) == 0) running.push_back(other);
  }
  const auto waits = [&](uint64_t tag) { return std::count(waiting_.begin(), waiting_.end(), tag) > 0; };
  for (uint64_t tag : running) {
    model::StepRequest r;
    r.id = tag;
    auto it = world.model().requests.find(world.model_id(tag));
    if (s.commits && random_.chance(10)) r.learned = tokens(random_.below(random_.chance(70) ? 3 : 5 * B_));
    r.committed = commit_length(world, tag, r.learned.size());
    r.count = random_.chance(40) ? 1 : random_.below(B_ + 2);
    // Zero tokens with ids, and waiting requests, are left to tests of their own.
    if (it == world.model().requests.end() || waits(tag)) r.count = std::max<uint64_t>(r.count, 1);
    if (s.extends && s.with_ids) r.tokens = tokens(r.count);
    if (waits(tag) && !s.commits) continue;
    s.in.requests.push_back(r);
    if (random_.chance(1)) {  // named twice, at once or later; the items need not ask for the same
      if (random_.chance(50)) r.count = random_.below(3);
      if (s.extends && s.with_ids) r.tokens = tokens(r.count = std::max<uint64_t>(r.count, 1));
      const uint64_t at = random_.below(s.in.requests.size() + 1);
      s.in.requests.insert(s.in.requests.begin() + static_cast<ptrdiff_t>(at), r);
    }
  }
  const auto some = [&](std::vector<uint64_t>& out, uint64_t percent, int admitted) {
    while (random_.chance(percent) && out.size() < 3)
      if (uint64_t tag = request(world, admitted))
        out.push_back(tag);
      else
        break;
  };
  some(s.in.frees, 30, -1);
  some(s.in.preempts, 10, 1);
  if (random_.chance(15))
    if (uint64_t tag = request(world, -1)) s.in.truncates.push_back({tag, cut_length(world, tag)});
  if (random_.chance(25)) {  // any two phases meet on one request, or on one of nobody
    uint64_t tag = request(world, -1);
    if (random_.chance(6)) tag = kForeign + random_.below(kForeigners);
    if (!s.in.requests.empty() && random_.chance(70))
      tag = s.in.requests[random_.below(s.in.requests.size())].id;
    if (tag && random_.chance(15)) s.in.frees.push_back(tag);
    if (tag && random_.chance(60)) s.in.preempts.push_back(tag);
    if (tag && random_.chance(50)) s.in.truncates.push_back({tag, cut_length(world, tag)});
    if (tag && random_.chance(60)) {
      model::StepAdmission a;
      a.id = tag;
      s.in.admissions.push_back(a), s.makes.push_back(0);
    }
  }
  while (random_.chance(50) && s.in.admissions.size() < 4) {
    model::StepAdmission a;
    uint64_t make = 0;
    if (!waiting_.empty() && random_.chance(40)) {
      a.id = request(world, 0);
      bool twice = false;
      for (const model::StepAdmission& other : s.in.admissions) twice |= other.id == a.id;
      if (twice) break;
    } else {
      a.text = prompt(), a.options = options(world);
      if (!s.in.admissions.empty() && s.in.admissions.back().id == 0 && random_.chance(30))  // the same again
        a.text = s.in.admissions.back().text, a.options.ns = s.in.admissions.back().options.ns;
      requests_.push_back(make = ++last_tag_);
    }
    s.in.admissions.push_back(a), s.makes.push_back(make);
  }
}

// Two are admitted together, the second one shares what the step fills. Then the first one is cut inside of
// it, and goes on when the second one has come to its end; or the other way round.
void Generator::tell_story(StepOp& s) {
  model::StepAdmission a;
  a.text = sound_prompt(), a.text.spans.clear();
  a.text.tokens.resize(std::min(a.text.tokens.size(), 3 * B_ + random_.below(B_) + 1));
  a.options.ns = any_namespace();
  a.options.flags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  s.in.admissions = {a, a}, s.makes = {last_tag_ + 1, last_tag_ + 2};
  requests_.insert(requests_.end(), s.makes.begin(), s.makes.end()), last_tag_ += 2;
  const uint64_t first = s.makes[random_.below(2)], second = s.makes[0] + s.makes[1] - first;
  story_ = {
      {Kind::kTruncate, first}, {Kind::kCommit, second}, {Kind::kAppend, first}, {Kind::kCommit, first}};
  if (random_.chance(20)) story_.erase(story_.begin() + static_cast<ptrdiff_t>(random_.below(4)));
}

Op Generator::next(const World& world) {
  // Percent of operations, in the order of Kind; `probe` changes nothing and is not counted.
  static const int kWeights[kKinds] = {42, 75, 400, 40, 78, 104, 36, 122, 46,  130, 18, 34, 50, 200, 72,
                                       28, 84, 92,  49, 38, 24,  24, 26,  195, 80,  58, 36, 60, 55,  220,
                                       35, 38, 40,  44, 58, 38,  36, 28,  70,  60,  2,  80, 50};
  learn(world);
  Op op;
  op.tag = ++last_tag_;
  int sum = 0, pick = 0;
  const bool quotas = setup_.config.max_quotas != 0 || random_.chance(3);
  const auto weight = [&](int kind) {
    return static_cast<Kind>(kind) == Kind::kSetQuota && !quotas ? 0 : kWeights[kind];
  };
  for (int kind = 0; kind < kKinds; ++kind) sum += weight(kind);
  int at = static_cast<int>(random_.below(static_cast<uint64_t>(sum)));
  while (at >= weight(pick)) at -= weight(pick++);
  op.kind = static_cast<Kind>(pick);
  uint64_t target =
      0;  // what naturally comes next, often enough for commits, copies on write and their fetching
  if (last_kind_ == Kind::kFork && random_.chance(90))
    op.kind = Kind::kAppend, target = random_.chance(80) ? last_tag_ - 1 : last_target_;
  if (last_kind_ == Kind::kTruncate && random_.chance(40)) op.kind = Kind::kAppend, target = last_target_;
  const bool allocated = last_kind_ == Kind::kAllocate || last_kind_ == Kind::kAllocateFromPrompt;
  if ((allocated || last_kind_ == Kind::kAdmit) && random_.chance(65))
    op.kind = Kind::kCommit, target = allocated ? last_tag_ - 1 : last_target_;
  const bool makes = op.kind == Kind::kCreate || op.kind == Kind::kAllocate || op.kind == Kind::kFork ||
                     op.kind == Kind::kAllocateFromPrompt;
  if (makes && world.model().requests.size() >= setup_.config.max_requests && random_.chance(80))
    op.kind = Kind::kFree;
  if (!world.model().pending.empty() && random_.chance(80))
    op.kind = random_.chance(75) ? Kind::kTakeCopies : Kind::kTakeZeros;
  // What is pinned is not evicted: most managers have at most one registered prompt at a time.
  if (op.kind == Kind::kRegister && !world.model().prompts.empty() && random_.chance(70))
    op.kind = Kind::kUnregister;
  if (op.kind == Kind::kCompact && !world.model().zeros.empty() && random_.chance(80))
    op.kind = Kind::kTakeZeros;
  if (op.kind == Kind::kResize && !world.model().zeros.empty() && random_.chance(80))
    op.kind = Kind::kTakeZeros;
  if (op.kind == Kind::kResize && world.model().in_flight() && random_.chance(60)) {
    op.kind = Kind::kRetire, last_kind_ = op.kind;
    return op;  // all steps
  }
  if (switches_ && random_.chance(world.model().caching ? 4 : 60))  // not off for long
    op.kind = Kind::kSetCaching;
  if (!story_.empty()) {
    op.kind = story_.front().first, target = story_.front().second;
    story_.erase(story_.begin());
  }
  if (op.kind == Kind::kPublish && setup_.config.max_nodes != 0) op.kind = Kind::kRelease;
  switch (op.kind) {
    case Kind::kCreate:
    case Kind::kAllocate:
      op.text = prompt(), op.options = options(world);
      requests_.push_back(op.tag);
      break;
    case Kind::kAdmit:
      op.target = request(world, 0);
      break;
    case Kind::kAdmitBatch:
      for (uint64_t count = random_.below(4); count-- != 0;)  // now and then one twice, or of nobody
        if (const uint64_t tag = random_.chance(4) ? kForeign : request(world, 0)) op.targets.push_back(tag);
      break;
    case Kind::kReserve: {
      op.target = request(world, 1);
      auto it = world.model().requests.find(world.model_id(op.target));
      const uint64_t now = it == world.model().requests.end() ? 0 : it->second.capacity;
      op.number = random_.chance(4) ? setup_.config.max_tokens + 1
                                    : std::min(now + random_.below(2 * B_ + 1), setup_.config.max_tokens);
      break;
    }
    case Kind::kAppend:
      op.target = target ? target : request(world, -1);
      op.text.tokens = tokens(random_.between(1, random_.chance(40) ? 1 : 2 * B_));
      if (random_.chance(3)) op.text.tokens.back() = -1;
      break;
    case Kind::kAddKeys:
      op.target = target ? target : request(world, -1);
      op.text.spans = later_spans(world, op.target);
      break;
    case Kind::kSetCaching:
      op.number = random_.chance(4) ? 1 + random_.below(2) : !switches_ || !world.model().caching;
      break;
    case Kind::kCommit:
      op.target = target ? target : request(world, 1);
      op.number = commit_length(world, op.target, 0);
      break;
    case Kind::kCommitAhead:
      op.target = request(world, 1);
      op.number = commit_length(world, op.target, 0);
      op.count = op.number;
      if (!setup_.config.fills || random_.chance(4))
        op.count -= std::min(op.number, random_.below(random_.chance(70) ? 2 * B_ + 1 : 8 * B_));
      if (random_.chance(3)) op.count = op.number + random_.below(2);
      break;
    case Kind::kTruncate:
      op.target = target ? target : request(world, -1);
      op.number = cut_length(world, op.target);
      if (target) op.number = random_.below(op.number + 1);
      break;
    case Kind::kFork:
      for (int tries = 0; tries < 10; ++tries) {  // better one that ends inside a block
        op.target = request(world, 1);
        auto it = world.model().requests.find(world.model_id(op.target));
        if (it != world.model().requests.end() && it->second.committed % B_) break;
      }
      requests_.push_back(op.tag);
      break;
    case Kind::kPreempt:
    case Kind::kFree: {
      op.target = request(world, op.kind == Kind::kFree ? -1 : 1);
      auto it = world.model().requests.find(world.model_id(op.target));
      if (it == world.model().requests.end()) break;
      const uint64_t most = std::min<uint64_t>(it->second.text.tokens.size(), it->second.capacity);
      if (it->second.committed < most && random_.chance(70)) op.kind = Kind::kCommit, op.number = most;
      break;
    }
    case Kind::kPin:
      pins_.push_back(op.tag);
      [[fallthrough]];
    case Kind::kProbe:
    case Kind::kDrop:
      op.text = sound_prompt();
      op.ns = any_namespace();
      break;
    case Kind::kUnpin:
      if (!pins_.empty()) op.target = pins_[random_.below(pins_.size())];
      if (random_.chance(80)) std::erase(pins_, op.target);
      break;
    case Kind::kEvict:
      op.number = random_.chance(85) ? 1 : random_.between(2, 4);
      op.group = random_.below(setup_.config.pools.size() + 1);
      break;
    case Kind::kAcquire:
      op.group = random_.below(setup_.config.groups.size() + setup_.config.cross.size());
      op.number = random_.chance(10) ? 65 : random_.between(1, 3);
      break;
    case Kind::kAcquirePrefix:
      op.text = sound_prompt();
      op.ns = any_namespace(), op.group = random_.below(setup_.config.groups.size());
      op.number = random_.chance(10) ? 0 : 16;
      break;
    case Kind::kPublish:
    case Kind::kRelease:
      external(world, op);
      break;
    case Kind::kUnpublish: {
      const auto past_all = static_cast<uint64_t>(world.model().num_blocks());
      const uint64_t count = random_.between(1, 3);
      for (uint64_t i = 0; i < count; ++i)  // sometimes -1, seldom a block that does not exist
        op.blocks.push_back(static_cast<int>(random_.below(random_.chance(98) ? past_all : past_all + 1)) -
                            (random_.chance(5) ? 1 : 0));
      break;
    }
    case Kind::kOpen:
      op.number = random_.between(1, 3);
      namespaces_.push_back(op.tag);
      break;
    case Kind::kClose:
      if (!namespaces_.empty()) op.ns = namespaces_[random_.below(namespaces_.size())];
      break;
    case Kind::kReset:
      op.ns = random_.chance(8) || namespaces_.empty() ? 0 : namespaces_[random_.below(namespaces_.size())];
      op.number = op.ns == 0 && random_.chance(50);  // the default one alone
      break;
    case Kind::kSetQuota: {
      op.ns = namespaces_.empty() || random_.chance(30) ? 0 : namespaces_[random_.below(namespaces_.size())];
      op.group = random_.below(setup_.config.pools.size());
      const uint64_t size = world.model().pools[op.group].count;
      op.number = random_.chance(25) ? 0 : random_.below(random_.chance(10) ? size + 2 : size / 4 + 1);
      op.most = random_.chance(60) ? 0 : random_.between(std::max(op.number, size / 2), size);
      if (random_.chance(15)) op.most = op.number;  // a static split, or none if it is 0
      if (random_.chance(3)) op.most = random_.below(size + 2);
      break;
    }
    case Kind::kTakeCopies:
    case Kind::kTakeZeros:
      op.number = random_.chance(10) ? 0 : 64;
      break;
    case Kind::kCompact:
      op.group = random_.below(setup_.config.pools.size());
      op.number = random_.chance(40) ? random_.below(4) : 64;
      break;
    case Kind::kResize: {  // mostly about the first size
      op.group = random_.below(setup_.config.pools.size());
      const uint64_t first = setup_.config.pools[op.group], room = world.model().room_of(op.group);
      op.number = random_.chance(70) ? random_.between(first - first / 3, first + (room - first) / 2)
                                     : random_.below(room + 2);
      op.most = random_.chance(10) ? random_.below(3) : 80;
      break;
    }
    case Kind::kRetire:
    case Kind::kFailStep:
      op.step.in.retired = retired();
      break;
    case Kind::kStep:
      step(world, op);
      if (setup_.config.fills && random_.chance(15)) tell_story(op.step);
      break;
    case Kind::kSetTime:
      op.until = world.model().now() + random_.below(4);
      if (random_.chance(4)) op.until -= std::min<uint64_t>(op.until, 2);
      if (random_.chance(2)) op.until += uint64_t{1} << random_.below(20);
      break;
    case Kind::kSetPriority:
      op.target = request(world, -1);
      op.number = random_.below(8 * B_);
      op.count = random_.chance(30) ? UINT64_MAX - random_.below(2) : random_.below(8 * B_);
      hint(world, op);
      break;
    case Kind::kEndSession:
      op.target = request(world, -1);
      op.number = random_.chance(60) ? 0 : random_.below(6 * B_);
      break;
    case Kind::kPrefixPriority:
    case Kind::kDemotePrefix:
      op.text = sound_prompt();
      op.ns = any_namespace();
      op.number = random_.chance(50) ? 0 : random_.below(6 * B_);
      hint(world, op);
      break;
    case Kind::kRegister:
      do {  // short: what is pinned is not evicted
        op.text = sound_prompt();
      } while (op.text.tokens.size() > 4 * B_ && !random_.chance(5));
      op.ns = any_namespace();
      op.number = random_.between(1, 3);
      break;
    case Kind::kAllocateFromPrompt:
      op.text.tokens = tokens(random_.below(3 * B_));
      if (random_.chance(2)) op.text.tokens.push_back(-1);
      if (random_.chance(2)) op.text.tokens = tokens(setup_.config.max_tokens);
      op.options = options(world), op.options.ns = 0;
      op.number = random_.between(1, 3);
      requests_.push_back(op.tag);
      break;
    case Kind::kUnregister:
      op.number = random_.between(1, 3);
      if (!world.model().prompts.empty() && random_.chance(60))
        op.number = static_cast<uint64_t>(world.model().prompts.begin()->first);
      break;
    case Kind::kCount:
      break;
  }
  last_kind_ = op.kind, last_target_ = op.target;
  if (namespaces_.size() > 8)
    std::erase_if(namespaces_, [&](uint64_t tag) {
      return tag + 100 < last_tag_ && !world.model().epochs.count(world.model_id(tag));
    });
  return op;
}
