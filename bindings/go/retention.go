// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"math"
	"strings"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Hint says how long positions stay cached: Priority 0 (evicted first) to 100, 35 without a hint, until the time UntilNS of SetTime; 0 = no end.
type Hint struct {
	Priority uint32
	UntilNS  uint64
}

// PriorityDemoted is below 0, for SetPrefixPriority: it is evicted before all else.
const PriorityDemoted uint32 = math.MaxUint32

// ToTheEnd is a number of tokens: all that follow, those that will be generated included.
const ToTheEnd uint64 = math.MaxUint64

// SetPriority hints a range of a request's tokens. Needs Config.Hints. ErrLimit if the request has 8 ranges.
func (m *Manager) SetPriority(request Request, firstToken, numTokens uint64, hint Hint) error {
	return m.call(func(c uintptr) error {
		return native.Kvc_manager_set_priority(c, uint64(request), firstToken, numTokens, hint.Priority, hint.UntilNS)
	})
}

// SetPrefixPriority hints the cached part of a prompt from firstToken on, and returns the tokens that took the hint. PriorityDemoted, without
// UntilNS, demotes the end of the prompt down to firstToken; a position that others use ends it. Needs Config.Hints.
func (m *Manager) SetPrefixPriority(namespace Namespace, tokens []int32, keys []ExtraKey, firstToken uint64, hint Hint) (hinted int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_set_prefix_priority(c, uint64(namespace), tokens, asBytes(keys), firstToken, hint.Priority, hint.UntilNS, &count)
	})
	return int(count), err
}

// named calls with the name of a prompt, which C could not tell from its part before a 0.
func (m *Manager) named(name string, call func(c uintptr) error) error {
	return m.call(func(c uintptr) error {
		if at := strings.IndexByte(name, 0); at >= 0 {
			return invalid("the name of the prompt has a 0 at byte %d; give a text without", at)
		}
		return call(c)
	})
}

// RegisterPrompt registers a prompt, such as a system prompt, under a name of 1 to 255 bytes. What is cached of it, and what its requests compute
// of it, is pinned until it is unregistered. It returns the tokens pinned now. ErrInvalidArgument if the name is registered.
func (m *Manager) RegisterPrompt(name string, namespace Namespace, tokens []int32, keys []ExtraKey) (pinned int, err error) {
	var count uint64
	err = m.named(name, func(c uintptr) error {
		return native.Kvc_manager_register_prompt(c, name, uint64(namespace), tokens, asBytes(keys), &count)
	})
	return int(count), err
}

// AllocateFromPrompt creates and admits a request with a registered prompt, followed by tokens. Namespace and ExtraKeys of the options are those of the
// prompt and not read; options may be nil. ErrNotFound if there is no such name; else as AllocateRequest.
func (m *Manager) AllocateFromPrompt(name string, tokens []int32, options *RequestOptions) (request Request, cached int, err error) {
	_, _, config := options.c()
	var id, hit uint64
	err = m.named(name, func(c uintptr) error {
		return native.Kvc_manager_allocate_from_prompt(c, name, tokens, config, &id, &hit)
	})
	return Request(id), int(hit), err
}

// UnregisterPrompt ends a registration and its pin. ErrNotFound if there is no such name.
func (m *Manager) UnregisterPrompt(name string) error {
	return m.named(name, func(c uintptr) error { return native.Kvc_manager_unregister_prompt(c, name) })
}

// Prompts lists the names of the registered prompts.
func (m *Manager) Prompts() ([]string, error) {
	text, err := grown(func(room []byte) (count uint64, err error) {
		err = m.call(func(c uintptr) error { return native.Kvc_manager_list_prompts(c, room, &count) })
		return count, err
	})
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(string(text[:len(text)-1]), "\x00"), nil
}
