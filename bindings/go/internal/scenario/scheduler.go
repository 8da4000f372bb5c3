// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

// scheduler is what the lines about a scheduler work on.
type scheduler struct {
	*kvcache.Scheduler
	plans []*kvcache.Plan // In flight, the oldest first.
	last  *kvcache.Plan
}

// name of a request; -1 = it has none.
func (r *runner) name(request kvcache.Request) int {
	for name, id := range r.requests {
		if id == uint64(request) {
			return name
		}
	}
	return -1
}

func (r *runner) plan(now uint64) (string, error) {
	plan, err := r.scheduler.Plan(now)
	if err != nil {
		return "", err
	}
	s := &r.scheduler
	if s.last = plan; plan.NumItems() != 0 {
		s.plans = append(s.plans, plan)
	}
	text := fmt.Sprintf(" %d", plan.ID)
	for i, request := range plan.Requests {
		text += fmt.Sprintf(" %d:%d+%d/%d", r.name(request), plan.FirstTokens[i], plan.TokenOffsets[i+1]-plan.TokenOffsets[i], plan.NumDrafts[i])
		if plan.Samples[i] {
			text += "!"
		}
	}
	for _, request := range plan.Preempted {
		text += fmt.Sprintf(" -%d", r.name(request))
	}
	for _, end := range plan.Ended {
		text += fmt.Sprintf(" x%d", r.name(end.Request))
	}
	return text, nil
}

func (r *runner) finish(token int32, failed bool) (text string, err error) {
	s := &r.scheduler
	plan := s.last
	if len(s.plans) != 0 {
		plan = s.plans[0]
	}
	result := kvcache.PlanResult{Failed: failed}
	if len(s.plans) != 0 && !failed { // each item that samples brings one token: no draft is accepted
		result.TokenOffsets = []uint64{0}
	}
	for _, samples := range plan.Samples {
		if samples {
			result.Tokens = append(result.Tokens, token)
		}
		if result.TokenOffsets != nil {
			result.TokenOffsets = append(result.TokenOffsets, uint64(len(result.Tokens)))
		}
	}
	ended, err := s.Finish(plan, result)
	if err != nil {
		return "", err
	}
	if s.plans = s.plans[1:]; failed {
		s.plans = nil
	}
	for _, end := range ended {
		text += fmt.Sprintf(" %d:%d:%d", r.name(end.Request), end.Reason, end.NumNewTokens)
	}
	return text, nil
}

func (r *runner) schedulerLine(word string, a []int) (text string, err error) {
	s := &r.scheduler
	switch word {
	case "scheduler":
		if s.Scheduler != nil {
			s.Close()
		}
		s.plans = nil
		s.Scheduler, err = r.m.NewScheduler(kvcache.SchedulerConfig{Policy: kvcache.SchedulePolicy(a[0]), Admission: kvcache.Admission(a[1]), MaxRunning: uint32(a[2]),
			MaxTokens: uint32(a[3]), MaxPlans: uint32(a[4]), MaxDrafts: uint32(a[5])})
	case "schedule":
		id, failure := s.Add(sequence(a[2], a[3]), uint64(a[4]), &kvcache.ScheduleOptions{Priority: int32(a[5]), Request: &kvcache.RequestOptions{Namespace: r.namespace(a[1])}})
		if err = failure; err == nil {
			r.requests[a[0]] = uint64(id)
		}
	case "draft":
		err = s.SetDrafts([]kvcache.Request{r.request(a[0])}, []int32{int32(a[1])})
	case "plan":
		return r.plan(uint64(a[0]))
	case "finish":
		return r.finish(int32(a[0]), false)
	case "undone":
		return r.finish(0, true)
	case "abort":
		err = s.Abort(r.request(a[0]))
	case "scheduled":
		stats, failure := s.Stats()
		if failure != nil {
			return "", failure
		}
		return fmt.Sprintf(" %d %d %d %d %d %d", stats.Waiting, stats.Running, stats.Preemptions, stats.CachedTokens, stats.RecomputedTokens, stats.Ended), s.Check()
	}
	return "", err
}
