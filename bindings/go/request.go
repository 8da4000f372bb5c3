// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// requestConfig is kvc_request_config.
type requestConfig struct {
	size                                                        uint64
	userData, maxCachedTokens, externalTokens, slots, lookahead uint64
	flags, dropTailBlocks                                       uint32
	waitUntilNs                                                 uint64
	headroom, _                                                 uint32
	crossTokens                                                 uint64
	crossDigest                                                 [32]byte
}

// RequestOptions are the options of a request: kvc_request_config. The zero value is all defaults.
type RequestOptions struct {
	Namespace       Namespace  // 0 = the default one.
	UserData        uint64     // Returned by RequestInfo; not interpreted.
	MaxCachedTokens uint64     // Upper bound of the hit; 0 = all tokens but one.
	ExternalTokens  uint64     // Tokens after the hit that a transfer will fill.
	Slots           uint64     // Tokens after the hit that get blocks at admission (chunked prefill); 0 = all.
	Lookahead       uint64     // Slots reserved past the known tokens (speculative decoding).
	DropTailBlocks  uint32     // Drop this many blocks from the end of the hit.
	NoRead          bool       // Do not use cached blocks.
	NoWrite         bool       // Do not publish.
	FullMustFit     bool       // Admit only if all known tokens would fit.
	Resumed         bool       // Admitted before under another id.
	PublishEnqueued bool       // The known tokens that a step gives slots are computed by that step. Needs Config.Fills, as the next two do.
	ShareFilling    bool       // Hits may end in blocks that a step in flight writes.
	WaitUntilNs     uint64     // Until then ErrFilling while another request computes the next tokens; 0 = compute them too.
	ExtraKeys       []ExtraKey // In any order; at most 16 over a token.
	Headroom        Headroom   // Room for the tokens to come; appends within it never lack a block. Needs Config.Headroom.
	CrossTokens     uint64     // Tokens of the request's encoder; 0 = none. Needs a Group with Cross.
	CrossDigest     [32]byte   // Of the encoder's input: requests with equal ones share. All zero = private, which shares nothing.
}

func (o *RequestOptions) config() *requestConfig {
	config := &requestConfig{userData: o.UserData, maxCachedTokens: o.MaxCachedTokens, externalTokens: o.ExternalTokens, slots: o.Slots, lookahead: o.Lookahead, dropTailBlocks: o.DropTailBlocks, waitUntilNs: o.WaitUntilNs, headroom: uint32(o.Headroom), crossTokens: o.CrossTokens, crossDigest: o.CrossDigest}
	config.size = uint64(unsafe.Sizeof(*config))
	for _, flag := range []struct {
		set  bool
		flag uint32
	}{{o.NoRead, C.KVC_REQUEST_NO_READ}, {o.NoWrite, C.KVC_REQUEST_NO_WRITE}, {o.FullMustFit, C.KVC_REQUEST_FULL_MUST_FIT},
		{o.Resumed, C.KVC_REQUEST_RESUMED}, {o.PublishEnqueued, C.KVC_REQUEST_PUBLISH_ENQUEUED}, {o.ShareFilling, C.KVC_REQUEST_SHARE_FILLING}} {
		if flag.set {
			config.flags |= flag.flag
		}
	}
	return config
}

// c is the options as C takes them.
func (o *RequestOptions) c() (namespace uint64, keys []byte, config *byte) {
	if o == nil {
		return 0, nil, nil
	}
	return uint64(o.Namespace), asBytes(o.ExtraKeys), asByte(o.config())
}

// AllocateRequest creates and admits a request: it finds the longest cached prefix and takes blocks for the rest, all or
// nothing. The first cached tokens need no compute. Options may be nil. Errors: ErrNoSpace, ErrAgain, ErrInvalidArgument,
// ErrLimit, ErrNotFound (namespace); then there is no request.
func (m *Manager) AllocateRequest(tokens []int32, options *RequestOptions) (request Request, cached int, err error) {
	namespace, keys, config := options.c()
	var id, hit uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_allocate_request(c, namespace, tokens, keys, config, &id, &hit)
	})
	return Request(id), int(hit), err
}

// CreateRequest creates a waiting request: its tokens are copied and hashed, and it gets no block. Options may be nil.
func (m *Manager) CreateRequest(tokens []int32, options *RequestOptions) (request Request, err error) {
	namespace, keys, config := options.c()
	var id uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_create_request(c, namespace, tokens, keys, config, &id)
	})
	return Request(id), err
}

// AdmitRequest admits a waiting request and returns the tokens of its hit. Errors: ErrNoSpace, ErrAgain, ErrBusy (admitted
// already), ErrNotFound.
func (m *Manager) AdmitRequest(request Request) (cached int, err error) {
	var hit uint64
	err = m.call(func(c uintptr) error { return native.Kvc_manager_admit_request(c, uint64(request), &hit) })
	return int(hit), err
}

// AdmitBatch admits waiting requests, all or none, and returns the tokens of their hits. Each is planned as if those before it were
// admitted; if one is refused, all wait as before. statuses: nil, or an entry for each. If one is refused, those that would fit are
// StatusSkipped, and so are those behind one of the same quota that has no space, which are not tried. Errors: those of AdmitRequest
// for the first that is refused, whose text begins with its index.
func (m *Manager) AdmitBatch(requests []Request, statuses []Status) (cached []uint64, err error) {
	if statuses != nil && len(statuses) != len(requests) {
		return nil, &Error{Status: C.KVC_ERROR_INVALID_ARGUMENT,
			Text: fmt.Sprintf("statuses has %d entries; %d requests need as many, or nil", len(statuses), len(requests))}
	}
	var told []int32
	if len(statuses) > 0 {
		told = unsafe.Slice((*int32)(unsafe.Pointer(&statuses[0])), len(statuses))
	}
	cached = make([]uint64, len(requests))
	if err = m.call(func(c uintptr) error { return native.Kvc_manager_admit_batch(c, requestIDs(requests), cached, told) }); err != nil {
		return nil, err
	}
	return cached, nil
}

// AppendTokens appends known tokens. An admitted request gets slots for them. Errors: ErrNoSpace, ErrAgain, ErrNotFound, ...
func (m *Manager) AppendTokens(request Request, tokens []int32) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.c == 0 {
		return ErrClosed
	}
	return native.Kvc_manager_append_tokens(m.c, uint64(request), tokens)
}

// AddKeys adds extra keys: what tokens stand for that the request gets later, such as an image in the next input of a session. Call it before the
// tokens are committed. Keys that the request has already are left out. Errors: ErrInvalidArgument (tokens that are committed), ErrLimit, ErrNotFound, ...
func (m *Manager) AddKeys(request Request, keys []ExtraKey) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_add_keys(c, uint64(request), asBytes(keys)) })
}

// AppendToken appends one known token.
func (m *Manager) AppendToken(request Request, token int32) error {
	return m.AppendTokens(request, []int32{token})
}

// ReserveTokens gives the request slots for capacity tokens in all; their ids may come later.
func (m *Manager) ReserveTokens(request Request, capacity int) error {
	return m.call(func(c uintptr) error {
		if err := notNegative("capacity", capacity); err != nil {
			return err
		}
		return native.Kvc_manager_reserve_tokens(c, uint64(request), uint64(capacity))
	})
}

// CommitTokens states that the KV of the first committed tokens (an absolute count) is written. Full blocks are published.
func (m *Manager) CommitTokens(request Request, committed int) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.c == 0 {
		return ErrClosed
	}
	if err := notNegative("committed", committed); err != nil {
		return err
	}
	return native.Kvc_manager_commit_tokens(m.c, uint64(request), uint64(committed))
}

// TruncateRequest keeps the first tokens (an absolute count) and returns the blocks of the rest.
func (m *Manager) TruncateRequest(request Request, tokens int) error {
	return m.call(func(c uintptr) error {
		if err := notNegative("tokens", tokens); err != nil {
			return err
		}
		return native.Kvc_manager_truncate_request(c, uint64(request), uint64(tokens))
	})
}

// Requests lists all requests.
func (m *Manager) Requests() ([]Request, error) {
	return grown(func(room []Request) (count uint64, err error) {
		ids := unsafe.Slice((*uint64)(unsafe.Pointer(&room[0])), len(room))
		err = m.call(func(c uintptr) error { return native.Kvc_manager_list_requests(c, ids, &count) })
		return count, err
	})
}

// BlockTable is the block table of a request in one group: block ids, -1 for entries that left a window.
func (m *Manager) BlockTable(request Request, group uint32) ([]int32, error) {
	info, err := m.RequestInfo(request)
	if err != nil {
		return nil, err
	}
	properties, err := m.Properties()
	if err != nil {
		return nil, err
	}
	size, tokens := uint64(properties.BlockSize), info.Capacity
	if uint64(group)+uint64(properties.NumCrossGroups) >= uint64(properties.NumGroups) {
		tokens = uint64(info.Admitted) * info.CrossTokens
	}
	table := make([]int32, (tokens+size-1)/size)
	return table, m.ExportTables([]Request{request}, group, -1, table)
}

// ExportTables writes whole block tables into rows of len(tables) / len(requests) entries. An entry without a block is fillID.
func (m *Manager) ExportTables(requests []Request, group uint32, fillID int32, tables []int32) error {
	if err := checkTables(requests, tables); err != nil {
		return err
	}
	return m.call(func(c uintptr) error {
		return native.Kvc_manager_export_tables(c, requestIDs(requests), group, fillID, tables)
	})
}

func requestIDs(requests []Request) []uint64 {
	if len(requests) == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&requests[0])), len(requests))
}

// CommonPrefix counts the first blocks that the tables of requests have in common in a group, as cascade attention reads them
// once for all. A position without a block ends it; a waiting request has none.
func (m *Manager) CommonPrefix(requests []Request, group uint32) (uint64, error) {
	var common uint64
	err := m.call(func(c uintptr) error {
		return native.Kvc_manager_common_prefix(c, requestIDs(requests), group, &common)
	})
	return common, err
}

// Slots writes the slots (block id * block size + offset) of tokens firstToken, firstToken + 1, ...; -1 for tokens that left
// the window.
func (m *Manager) Slots(request Request, group uint32, firstToken int, slots []int64) error {
	return m.call(func(c uintptr) error {
		if err := notNegative("firstToken", firstToken); err != nil {
			return err
		}
		return native.Kvc_manager_export_slots(c, uint64(request), group, uint64(firstToken), slots)
	})
}

// TakePending takes the work of all calls since the last take: the copies of single calls (those of a Step are in Step.Copies),
// and the blocks to clear (Config.ZeroCrossNamespace, ZeroAlways). Execute the copies of the step first, then these, then the
// clears, before anything else writes to these blocks.
func (m *Manager) TakePending() (copies []BlockCopy, zeroBlocks []int32, err error) {
	copies, err = grown(func(room []BlockCopy) (numCopies uint64, err error) {
		var numZero uint64
		zeroBlocks = make([]int32, len(room))
		err = m.call(func(c uintptr) error {
			return native.Kvc_manager_take_pending(c, asBytes(room), zeroBlocks, &numCopies, &numZero)
		})
		zeroBlocks = zeroBlocks[:numZero]
		return numCopies, err
	})
	return copies, zeroBlocks, err
}

// Compact moves contents from the highest blocks of a pool to its lowest free ones, and writes the moves. Execute them before any
// block is read or written. If it fills moves, another call may find more. ErrBusy while a step is in flight or work is pending.
func (m *Manager) Compact(pool uint32, moves []BlockCopy) (count int, err error) {
	var made uint64
	err = m.call(func(c uintptr) error { return native.Kvc_manager_compact(c, pool, asBytes(moves), &made) })
	return int(made), err
}

// Resize changes the number of blocks of a pool, null block included, up to Config.MaxBlocks. A pool that grows has more free blocks at once. One
// that shrinks evicts cached blocks, if it must, in the order of the policy, and moves what is held or cached to the blocks that stay. Execute
// the moves before any block is read or written. Errors: ErrNoSpace (more blocks are held), ErrAgain (a step is in flight), ErrBusy (pending
// work, or an external hold on a block that would leave), ErrInvalidArgument; then nothing changes.
func (m *Manager) Resize(pool uint32, numBlocks uint64) (moves []BlockCopy, err error) {
	return grown(func(room []BlockCopy) (count uint64, err error) {
		err = m.call(func(c uintptr) error { return native.Kvc_manager_resize(c, pool, numBlocks, asBytes(room), &count) })
		return count, err
	})
}

// grown calls with more and more room until the room is enough.
func grown[T any](call func(room []T) (uint64, error)) ([]T, error) {
	for size := 64; ; size *= 4 {
		room := make([]T, size)
		count, err := call(room)
		if err == nil {
			return room[:count], nil
		}
		if !errors.Is(err, ErrBufferTooSmall) {
			return nil, err
		}
	}
}
