// SPDX-License-Identifier: Apache-2.0

// Executes a scenario (tests/scenario/README.md) through the Go package and prints its trace.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

type runner struct {
	m                          *kvcache.Manager
	step                       *kvcache.Step
	requests, namespaces, pins map[int]uint64
	cursor                     uint64
	policy                     [3]int // Number, weight in percent, history.
	quotas                     uint32
	recordBytes                uint64
	log                        []byte
	room                       uint64
	headroom, partial          bool
	mode                       kvcache.Headroom
	encoder                    kvcache.RequestOptions // CrossTokens and CrossDigest
	hints                      bool
	fills                      [3]int
	groups                     []kvcache.Group
	workload                   *kvcache.Workload
	sizer                      *kvcache.Sizer
	tiers                      tiers
	speculation                speculation
	scheduler                  scheduler
}

func sequence(first, count int) []int32 {
	tokens := make([]int32, count)
	for i := range tokens {
		tokens[i] = int32(first + i)
	}
	return tokens
}

func (r *runner) request(name int) kvcache.Request     { return kvcache.Request(r.requests[name]) }
func (r *runner) namespace(name int) kvcache.Namespace { return kvcache.Namespace(r.namespaces[name]) }

func (r *runner) ofCurve(name int) kvcache.Namespace {
	if name < 0 {
		return kvcache.AllNamespaces
	}
	return r.namespace(name)
}

func (r *runner) config(a []int) kvcache.Config {
	var rooms []uint64
	if r.room != 0 {
		rooms = []uint64{r.room}
	}
	return kvcache.Config{MaxBlocks: rooms, Headroom: r.headroom, PartialReuse: r.partial, NumBlocks: uint64(a[0]), BlockSize: uint32(a[1]), EventCapacity: uint64(a[2]), MaxRequests: uint64(a[3]),
		Policy: kvcache.Policy(r.policy[0]), PolicyWeight: float64(r.policy[1]) / 100, PolicyHistory: uint64(r.policy[2]), Hints: r.hints, Fills: r.fills[0] != 0, MaxQuotas: r.quotas,
		RecordBytes: r.recordBytes}
}

// replayLog: all parts.
func (r *runner) replayLog() (string, error) {
	part, err := r.m.TakeLog()
	if err != nil {
		return "", err
	}
	r.log = append(r.log, part...)
	replayed, err := kvcache.ReplayLog(r.log)
	return fmt.Sprintf(" %d %d %d %d", replayed.Calls, replayed.Mismatches, replayed.LostCalls, replayed.Digest), err
}

func (r *runner) newStep() (err error) {
	r.step, err = r.m.NewStep(kvcache.StepLimits{MaxRequests: 8, MaxTokens: 8, MaxRows: 8, RowStride: 16, MaxAdmissions: 4, MaxPromptTokens: 160})
	return err
}

// rebuild: the old manager goes; names of namespaces follow.
func (r *runner) rebuild(a []int) (string, error) {
	made, err := r.m.Rebuild(r.config(a))
	if err != nil {
		return "", err
	}
	text := ""
	for _, c := range made.Copies {
		text += fmt.Sprintf(" %d+%d>%d+%d*%d", c.Source, c.Offset, c.Destination, c.NewOffset, c.NumTokens)
	}
	for name, id := range r.namespaces {
		if now, found := made.Namespaces[kvcache.Namespace(id)]; found {
			r.namespaces[name] = uint64(now)
		}
	}
	r.m.Close()
	r.m, r.cursor = made.Manager, 0
	return text, r.newStep()
}

func (r *runner) manager(a []int) (err error) {
	config := r.config(a)
	if len(r.groups) > 0 {
		config.Groups = r.groups
	} else if len(a) > 4 {
		config.Groups = []kvcache.Group{{}, {WindowTokens: uint64(a[4]), NumSinkTokens: uint32(a[5])}}
	}
	if r.m != nil {
		r.m.Close()
	}
	r.requests, r.namespaces, r.pins, r.cursor = map[int]uint64{}, map[int]uint64{}, map[int]uint64{}, 0
	if r.m, err = kvcache.New(config); err != nil {
		return err
	}
	return r.newStep()
}

func list[T any](values []T, err error) (string, error) {
	text := ""
	for _, value := range values {
		text += fmt.Sprint(" ", value)
	}
	return text, err
}

// decode is one step; without ids each item is refused.
func (r *runner) decode(names []int, withIDs bool) (string, error) {
	for i, name := range names {
		info, err := r.m.RequestInfo(r.request(name))
		if err != nil {
			return "", err
		}
		r.step.Requests[i], r.step.Committed[i] = r.requests[name], info.NumTokens
		r.step.ExtendOffsets[i+1] = uint64(i + 1)
	}
	for i := range names {
		if withIDs {
			r.step.ExtendTokens[i] = 7
		}
	}
	r.step.NumRequests, r.step.NumAdmissions, r.step.RetiredStep = len(names), 0, r.step.StepID
	if err := r.step.Run(); err != nil {
		return "", err
	}
	text := ""
	for i := range names {
		text += fmt.Sprintf(" %d:%d", int32(r.step.Status[i]), r.step.Slots[i])
	}
	return text, nil
}

func (r *runner) arrive(a []int) (text string, err error) {
	n, end := len(a)/5, 0
	options := make([]kvcache.RequestOptions, n)
	for i := range options {
		one := a[5*i:]
		options[i] = kvcache.RequestOptions{Namespace: r.namespace(one[1]), Slots: uint64(one[2]), PublishEnqueued: r.fills[1]&16 != 0, ShareFilling: r.fills[1]&32 != 0, WaitUntilNs: uint64(r.fills[2]), CrossTokens: r.encoder.CrossTokens, CrossDigest: r.encoder.CrossDigest}
		end += copy(r.step.AdmitTokens[end:], sequence(one[3], one[4]))
		r.step.AdmitOffsets[i+1] = uint64(end)
	}
	r.step.NumRequests, r.step.NumAdmissions, r.step.RetiredStep, r.step.AdmitOptions = 0, n, r.step.StepID, options
	if err = r.step.Run(); err != nil {
		return "", err
	}
	for i := range options {
		if r.step.Status[i] == kvcache.StatusOK {
			r.requests[a[5*i]] = r.step.Admitted[i]
		}
		text += fmt.Sprintf(" %d:%d", int32(r.step.Status[i]), r.step.Cached[i])
	}
	return text, nil
}

func (r *runner) rates(a []int) (string, error) {
	sizes := make([]uint64, len(a)-1)
	for i := range sizes {
		sizes[i] = uint64(a[i+1])
	}
	rates, err := r.m.HitRates(r.ofCurve(a[0]), sizes)
	text := ""
	for _, rate := range rates {
		text += fmt.Sprint(" ", int(rate*1e6))
	}
	return text, err
}

func decision(d kvcache.SizingDecision, err error) (string, error) {
	return list([]uint64{d.Number, uint64(d.Action), uint64(d.Reason), uint64(d.Basis), d.FromBlocks, d.ToBlocks}, err)
}

func (r *runner) forecast(horizon uint64) (string, error) {
	info, err := r.workload.Read()
	if err != nil {
		return "", err
	}
	value, err := r.workload.Predict(horizon)
	return list([]int{int(info.NumObservations), int(info.Average*1e3 + 0.5), int(info.Level*1e3 + 0.5), int(info.Variance*1e3 + 0.5), int(value*1e3 + 0.5)}, err)
}

func (r *runner) events() (string, error) {
	events := make([]kvcache.Event, 64)
	count, next, err := r.m.Events(r.cursor, events, nil)
	if err != nil {
		return "", err
	}
	r.cursor = next
	text := ""
	for _, e := range events[:count] {
		text += fmt.Sprintf(" %d:%d:%d:%d:%x", e.Kind, e.Group, e.Block, e.TokenOffset, e.Digest[:2])
	}
	return text, nil
}

func (r *runner) copies() (string, error) {
	copies, _, err := r.m.TakePending()
	return pairs(copies, err)
}

func pairs(copies []kvcache.BlockCopy, err error) (string, error) {
	text := ""
	for _, c := range copies {
		text += fmt.Sprintf(" %d>%d", c.Source, c.Destination)
	}
	return text, err
}

func (r *runner) stats() (string, error) {
	s, err := r.m.Stats()
	return list([]uint64{s.BlocksFree, s.BlocksCached, s.BlocksLive, s.BlocksReserved, s.BlocksPinned, s.LiveRequests, s.Admissions,
		s.CachedTokens, s.Evictions, s.PublishedBlocks, s.Duplicates, s.Refusals}, err)
}

func (r *runner) share(namespace kvcache.Namespace, pool uint32) (string, error) {
	q, err := r.m.QuotaInfo(namespace, pool)
	return list([]uint64{q.MinBlocks, q.MaxBlocks, q.Held, q.Cached, q.Fenced, q.Available, q.Refusals, q.BlockQueries, q.BlockHits}, err)
}

func blocks(numbers []int) []int32 {
	list := make([]int32, len(numbers))
	for i, number := range numbers {
		list[i] = int32(number)
	}
	return list
}

// keep stores an id where the call succeeded.
func keep[T ~uint64](names map[int]uint64, name int, id T, err error) error {
	if err == nil {
		names[name] = uint64(id)
	}
	return err
}

func (r *runner) execute(word string, a []int) (text string, err error) {
	said := func(value any, err error) (string, error) { return fmt.Sprint(" ", value), err }
	switch word {
	case "policy":
		copy(r.policy[:], a)
	case "hints":
		r.hints = a[0] != 0
	case "cross":
		r.groups = append(r.groups, kvcache.Group{Cross: true})
	case "encoder":
		r.encoder.CrossTokens = uint64(a[0])
		for i := range r.encoder.CrossDigest {
			r.encoder.CrossDigest[i] = byte(a[1])
		}
	case "heard":
		info, failure := r.m.RequestInfo(r.request(a[0]))
		return said(info.NumCrossCached, failure)
	case "fills":
		r.fills = [3]int{a[0], a[1], a[2]}
	case "fail":
		preempted, failure := r.m.FailStep(r.step.StepID)
		text := ""
		for _, id := range preempted {
			for name, known := range r.requests {
				if known == uint64(id) {
					text += fmt.Sprintf(" %d", name)
				}
			}
		}
		return text, failure
	case "room":
		r.room = uint64(a[0])
	case "partial":
		r.partial = a[0] != 0
	case "headroom":
		r.headroom = a[0] != 0
	case "mode":
		r.mode = kvcache.Headroom(a[0])
	case "resize":
		return pairs(r.m.Resize(uint32(a[0]), uint64(a[1])))
	case "expect":
		return said(r.m.ExpectedTokens(kvcache.Headroom(a[0]), uint64(a[1])))
	case "now":
		r.step.NowNS = uint64(a[0])
	case "time":
		err = r.m.SetTime(uint64(a[0]))
	case "priority":
		err = r.m.SetPriority(r.request(a[0]), uint64(a[1]), uint64(a[2]), kvcache.Hint{Priority: uint32(a[3]), UntilNS: uint64(a[4])})
	case "over":
		err = r.m.EndSession(r.request(a[0]), uint64(a[1]))
	case "keep":
		hint := kvcache.Hint{Priority: uint32(a[4]), UntilNS: uint64(a[5])}
		hinted, failure := r.m.SetPrefixPriority(r.namespace(a[0]), sequence(a[1], a[2]), nil, uint64(a[3]), hint)
		return said(hinted, failure)
	case "demote":
		demoted, failure := r.m.SetPrefixPriority(r.namespace(a[0]), sequence(a[1], a[2]), nil, uint64(a[3]), kvcache.Hint{Priority: kvcache.PriorityDemoted})
		return said(demoted, failure)
	case "register":
		pinned, failure := r.m.RegisterPrompt(fmt.Sprint("p", a[0]), r.namespace(a[1]), sequence(a[2], a[3]), nil)
		return said(pinned, failure)
	case "acquire":
		id, cached, failure := r.m.AllocateFromPrompt(fmt.Sprint("p", a[1]), sequence(a[2], a[3]), nil)
		return said(cached, keep(r.requests, a[0], id, failure))
	case "unregister":
		err = r.m.UnregisterPrompt(fmt.Sprint("p", a[0]))
	case "prompts":
		return list(r.m.Prompts())
	case "group": // of the managers made from now on
		if len(a) == 0 {
			r.groups = nil
		} else {
			r.groups = append(r.groups, kvcache.Group{WindowTokens: uint64(a[0]), NumSinkTokens: uint32(a[1]), RetentionTokens: uint64(a[2]), ChunkTokens: uint64(a[3]), State: a[4] != 0})
		}
	case "manager":
		err = r.manager(a)
	case "rebuild":
		return r.rebuild(a)
	case "open":
		id, failure := r.m.OpenNamespace(kvcache.Identity{Model: []byte{byte(a[1])}})
		err = keep(r.namespaces, a[0], id, failure)
	case "close":
		err = r.m.CloseNamespace(r.namespace(a[0]))
	case "curve":
		err = r.m.OpenCurve(r.ofCurve(a[0]), kvcache.CurveConfig{SampleRate: float64(a[1]) / 100, MaxBlocks: uint64(a[2])})
	case "uncurve":
		err = r.m.CloseCurve(r.ofCurve(a[0]))
	case "rates":
		return r.rates(a)
	case "scheduler", "schedule", "draft", "plan", "finish", "undone", "abort", "scheduled":
		return r.schedulerLine(word, a)
	case "tier", "clock", "page", "put", "get", "lease", "erase", "pages":
		return r.tierLine(word, a)
	case "tree", "greedy", "sampled", "drawn", "typical", "moves", "states", "counted", "halved", "length", "index", "learn", "unlearn", "propose", "lookup":
		return r.speculation.line(word, a)
	case "sizer":
		r.sizer, err = kvcache.NewSizer(kvcache.SizerConfig{Mode: kvcache.SizingMode(a[0]), NumBlocks: uint64(a[1]), MaxBlocks: uint64(a[2]),
			Hysteresis: float64(a[3]) / 100, CooldownNs: uint64(a[4])})
	case "decide":
		return decision(r.sizer.Decide(uint64(a[0]), float64(a[1])))
	case "decided":
		return decision(r.sizer.ReadLog(uint64(a[0])))
	case "workload":
		r.workload, err = kvcache.NewWorkload(uint64(a[0]), uint32(a[1]))
	case "observe":
		err = r.workload.Record(uint64(a[0]), float64(a[1]))
	case "forecast":
		return r.forecast(uint64(a[0]))
	case "quotas":
		r.quotas = uint32(a[0])
	case "record":
		r.recordBytes = uint64(a[0])
	case "log":
		return r.replayLog()
	case "quota":
		err = r.m.SetQuota(r.namespace(a[0]), uint32(a[1]), uint64(a[2]), uint64(a[3]))
	case "share":
		return r.share(r.namespace(a[0]), uint32(a[1]))
	case "reset":
		err = r.m.ResetNamespace(r.namespace(a[0]))
	case "resetall":
		err = r.m.ResetAll()
	case "caching":
		err = r.m.SetPrefixCaching(a[0] != 0)
	case "allocate":
		id, cached, failure := r.m.AllocateRequest(sequence(a[2], a[3]), &kvcache.RequestOptions{Namespace: r.namespace(a[1]), Headroom: r.mode, CrossTokens: r.encoder.CrossTokens, CrossDigest: r.encoder.CrossDigest})
		return said(cached, keep(r.requests, a[0], id, failure))
	case "create":
		id, failure := r.m.CreateRequest(sequence(a[2], a[3]), &kvcache.RequestOptions{Namespace: r.namespace(a[1]), Headroom: r.mode, CrossTokens: r.encoder.CrossTokens, CrossDigest: r.encoder.CrossDigest})
		err = keep(r.requests, a[0], id, failure)
	case "admit":
		cached, failure := r.m.AdmitRequest(r.request(a[0]))
		return said(cached, failure)
	case "together":
		batch := make([]kvcache.Request, len(a))
		for i, name := range a {
			batch[i] = r.request(name)
		}
		cached, failure := r.m.AdmitBatch(batch, nil)
		text := ""
		for _, hit := range cached {
			text += fmt.Sprintf(" %d", hit)
		}
		return text, failure
	case "append":
		err = r.m.AppendTokens(r.request(a[0]), sequence(a[1], a[2]))
	case "key":
		key := kvcache.ExtraKey{FirstToken: uint64(a[1]), NumTokens: uint64(a[2])}
		for i := range key.Digest {
			key.Digest[i] = byte(a[3])
		}
		err = r.m.AddKeys(r.request(a[0]), []kvcache.ExtraKey{key})
	case "reserve":
		err = r.m.ReserveTokens(r.request(a[0]), a[1])
	case "commit":
		err = r.m.CommitTokens(r.request(a[0]), a[1])
	case "ahead":
		err = r.m.CommitAhead(r.request(a[0]), uint64(a[1]), uint64(a[2]))
	case "truncate":
		err = r.m.TruncateRequest(r.request(a[0]), a[1])
	case "preempt":
		err = r.m.PreemptRequest(r.request(a[0]))
	case "free":
		err = r.m.FreeRequest(r.request(a[0]))
	case "fork":
		id, failure := r.m.ForkRequest(r.request(a[0]))
		err = keep(r.requests, a[1], id, failure)
	case "copies":
		return r.copies()
	case "table":
		return list(r.m.BlockTable(r.request(a[0]), uint32(a[1])))
	case "lost":
		l, failure := r.m.LostReuse(uint32(a[0]))
		return list([]uint64{l.Admissions, l.BlockTokens, l.WindowTokens, l.StateTokens, l.AgreementTokens, l.NodeTokens}, failure)
	case "blame":
		info, failure := r.m.RequestInfo(r.request(a[0]))
		return list([]uint64{info.LostReuseTokens, uint64(info.LostGroup), uint64(info.LostReason)}, failure)
	case "checkpoint":
		info, failure := r.m.RequestInfo(r.request(a[0]))
		return said(info.NextCheckpoint, failure)
	case "slots":
		slots := make([]int64, a[3])
		return list(slots, r.m.Slots(r.request(a[0]), uint32(a[1]), a[2], slots))
	case "probe":
		info, failure := r.m.Probe(r.namespace(a[0]), sequence(a[1], a[2]), nil)
		return said(info.NumCached, failure)
	case "drop":
		dropped, failure := r.m.DropPrefix(r.namespace(a[0]), sequence(a[1], a[2]), nil)
		return said(dropped, failure)
	case "evict":
		evicted, failure := r.m.EvictBlocks(-1, a[0])
		return said(evicted, failure)
	case "pin":
		pin, _, failure := r.m.PinPrefix(r.namespace(a[1]), sequence(a[2], a[3]), nil)
		err = keep(r.pins, a[0], pin, failure)
	case "unpin":
		err = r.m.Unpin(kvcache.Pin(r.pins[a[0]]))
	case "take":
		taken := make([]int32, a[1])
		return list(taken, r.m.AcquireBlocks(uint32(a[0]), taken))
	case "publish":
		err = r.m.PublishBlocks(r.namespace(a[0]), uint32(a[1]), sequence(a[2], a[3]), nil, blocks(a[4:]))
	case "give":
		err = r.m.ReleaseBlocks(blocks(a))
	case "step":
		return r.decode(a, true)
	case "forget":
		return r.decode(a, false)
	case "arrive":
		return r.arrive(a)
	case "events":
		return r.events()
	case "stats":
		return r.stats()
	case "digest":
		digest, failure := r.m.Digest()
		return said(digest, failure)
	default:
		panic("no such line: " + word)
	}
	return "", err
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	r := &runner{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		numbers := []int{}
		for _, word := range words[1:] {
			number, err := strconv.Atoi(word)
			if err != nil {
				panic(err)
			}
			numbers = append(numbers, number)
		}
		text, err := r.execute(words[0], numbers)
		var failure *kvcache.Error
		if errors.As(err, &failure) {
			text = fmt.Sprintf(" %d %s", failure.Status, failure.Text)
		} else if err != nil {
			panic(err)
		} else {
			text = " 0" + text
		}
		fmt.Println(strings.Join(words, " ") + " =" + text)
	}
	if err := r.m.Check(); err != nil {
		panic(err)
	}
}
