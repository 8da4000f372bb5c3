/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_FILLS_H
#define KVCACHE_FILLS_H

/** @file kvcache/fills.h
 *  @brief One fill per content: requests with equal tokens compute them once, also at the same time.
 *
 *  By default a block can be found when it is committed. Requests with one prompt that come together, such as
 *  eight samples of it, then all compute it. In a manager with the flag KVC_MANAGER_FILLS each request
 *  chooses what it does about tokens that another one is computing:
 *
 *  - Compute them too: the default.
 *  - Wait: kvc_request_config.wait_until_ns. While another admitted request computes the block after the hit,
 *    or a transfer fills it, the admission gets KVC_ERROR_FILLING and takes nothing. Other admissions of the
 *    step go on. Admit it again in the next steps. If the other request ends, is preempted, truncated or
 *    fails to publish, the next admission computes the tokens instead. From wait_until_ns on it does not
 *    wait.
 *  - Share: KVC_REQUEST_SHARE_FILLING. Blocks that a step in flight is writing count as hits. Set it if your
 *    kernels run in the order of the steps, and those of one step write the keys and values of a layer before
 *    they read them: then the content is there in time.
 *
 *  KVC_REQUEST_PUBLISH_ENQUEUED makes a request's blocks such FILLING blocks. Set it if the kernels of each
 *  step compute the tokens to which the step gives slots and which are known when the request is admitted:
 *  all of them at once, or `slots` of them and then those of the extensions. Commits publish all else, as
 *  ever: tokens that are sampled later, external_tokens, tokens to which single calls give slots, and what
 *  follows them. A block is FILLING until its request has committed all of it, a request that shares it
 *  commits tokens that it has computed itself, or its step is retired. Until then only requests that share
 *  find it. The event STORED comes when it can be shared.
 *
 *  So n samples of one prompt need one prefill: give all of them both flags and a wait_until_ns, and admit
 *  them in one step. If the prompt is computed in chunks, the others wait until the step of the last chunk. A
 *  chunk that ends inside the span of an extra key, or whose window was returned, is not waited for: end
 *  chunks where blocks and spans end.
 *
 *  A wait needs the time: set kvc_step.now_ns in each step.
 *
 *  FAILURES. If the kernels of a step fail, or are not launched, call kvc_manager_fail_step before you retire
 *  it. If an encoder's kernels were in such a step, run them again, even if the request is not preempted, as
 *  when its decoder was truncated to 0 tokens. The kernels of all slots that a step gave must run, also if
 *  their request was freed, preempted or truncated since. Execute the copies of a failed step all the same.
 *  Requests that hold no FILLING block, such as those that decode, are not preempted: their commits tell how
 *  far they are.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Says that the kernels of a step in flight, and of all later ones, did not write their blocks. FILLING
 *  blocks of these steps are found no more. All requests that hold one, computed or shared, are preempted:
 *  admit them again. The steps stay in flight until you retire them. Holds the lock for O(blocks).
 *  @param[in]  step_id  kvc_step.step_id of a step that is not retired.
 *  @param[out] requests [capacity] The requests that were preempted.
 *  @param[out] count    How many. max_requests is always room enough.
 *  @return KVC_OK; INVALID_ARGUMENT (no step in flight), BUFFER_TOO_SMALL (count is what is needed), BUSY (a
 *  thread is in kvc_manager_step), OUT_OF_MEMORY; UNSUPPORTED (without KVC_MANAGER_FILLS). A failed call
 *  changes nothing. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_fail_step(kvc_manager* m, uint64_t step_id, uint64_t* requests,
                                         size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_FILLS_H */
