// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"testing"
)

func TestALogMakesTheSameCallsAgain(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 16, BlockSize: 4, RecordBytes: 1 << 16})
	var log []byte
	for i := 0; i < 3; i++ {
		r, _, err := m.AllocateRequest(sequence(10*i, 9), nil)
		must(t, err)
		must(t, m.CommitTokens(r, 9))
		part, err := m.TakeLog()
		must(t, err)
		log = append(log, part...)
	}
	digest, err := m.Digest()
	must(t, err)
	replayed, err := ReplayLog(log)
	must(t, err)
	if replayed.Calls != 6 || replayed.Mismatches != 0 || replayed.Digest != digest || replayed.Text != "" {
		t.Errorf("%+v, digest %d", replayed, digest)
	}
	info, err := m.LogInfo()
	must(t, err)
	if info.Calls != 7 || info.LostCalls != 0 || info.Capacity != 1<<16 {
		t.Errorf("%+v", info)
	}
	log[70] ^= 1
	if _, err := ReplayLog(log); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := newManager(t, Config{NumBlocks: 4}).TakeLog(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
