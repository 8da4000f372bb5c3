// SPDX-License-Identifier: Apache-2.0
// The logged calls of calls.def as types.
#pragma once
#include <kvcache.h>

#include "api/record_step.h"
#include "api/retired_calls.h"

namespace kvc {

template <typename... Codecs>
struct CodecList {};

// Calls visit(codec, parameters...) for each codec with its own parameters of `args`.
template <size_t kFirst, typename Args, typename Visit>
void visit_codecs(CodecList<>, Args&, const Visit&) {}
template <size_t kFirst, typename Codec, typename... Rest, typename Args, typename Visit>
void visit_codecs(CodecList<Codec, Rest...>, Args& args, const Visit& visit) {
  [&]<size_t... I>(std::index_sequence<I...>) { visit(Codec{}, std::get<kFirst + I>(args)...); }
  (std::make_index_sequence<Codec::kParams>{});
  visit_codecs<kFirst + Codec::kParams>(CodecList<Rest...>{}, args, visit);
}

// The inputs of a call, in order.
template <typename Codecs, typename Args, typename Log>
void visit_inputs(Log& log, Args& args) {
  visit_codecs<0>(Codecs{}, args, [&](auto codec, auto&... parameters) {
    if (!log.refused()) decltype(codec)::inputs(log, parameters...);
  });
}

// Its results.
template <typename Codecs, typename Args, typename Log>
void visit_results(Log& log, Args& args) {
  visit_codecs<0>(Codecs{}, args, [&](auto codec, auto&... parameters) {
    if constexpr (requires { decltype(codec)::results(log, parameters...); })
      decltype(codec)::results(log, parameters...);
  });
}

namespace codec {
#define KVC_LOGGED_CALL(number, duration, function, ...) using of_##function = CodecList<__VA_ARGS__>;
#define KVC_RETIRED_CALL(number, function, ...) using retired_##function = CodecList<__VA_ARGS__>;
#include "api/calls.def"
}  // namespace codec

template <auto kFunction>
struct LoggedCall;
#define KVC_LOGGED_CALL(number, duration, function, ...) \
  template <>                                            \
  struct LoggedCall<function> {                          \
    static constexpr uint32_t kNumber = number;          \
    static constexpr const char* kName = #function;      \
    using Codecs = codec::of_##function;                 \
  };
#define KVC_RETIRED_CALL(number, function, ...)     \
  template <>                                       \
  struct LoggedCall<retired::function> {            \
    static constexpr const char* kName = #function; \
    using Codecs = codec::retired_##function;       \
  };
#include "api/calls.def"

}  // namespace kvc
