// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"bytes"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// LogReplay is what ReplayLog found: the calls made again, those with another status or result than in the log, the number of the first of
// them (from 1) with its text, and the digest after the last call.
type LogReplay struct {
	Calls, Mismatches, FirstMismatch, Digest, LostCalls uint64
	LibraryVersion                                      uint32
	Text                                                string
}

// logReplay is kvc_replay_info.
type logReplay struct {
	size                                                uint64
	calls, mismatches, firstMismatch, digest, lostCalls uint64
	libraryVersion, _                                   uint32
	text                                                [256]byte
}

// TakeLog returns what was logged since the last take, as one part of a log, and empties the log; nothing if there is nothing new. Append the
// parts to a file: ReplayLog and `kvcache replay --log` make the calls again. A log has the tokens of all prompts. ErrUnsupported without
// Config.RecordBytes.
func (m *Manager) TakeLog() ([]byte, error) {
	return grown(func(room []byte) (count uint64, err error) {
		err = m.call(func(c uintptr) error { return native.Kvc_manager_take_log(c, room, &count) })
		return count, err
	})
}

// ReplayLog makes the calls of a log again, on a manager of its own with another hash seed, and compares every status and result. Give all
// parts of the log, in order. ErrInvalidArgument if it is no log, or was cut or changed; ErrUnsupported if its format is of another version.
func ReplayLog(log []byte) (LogReplay, error) {
	info := logReplay{size: uint64(unsafe.Sizeof(logReplay{}))}
	if err := native.Kvc_log_replay(log, asByte(&info)); err != nil {
		return LogReplay{}, err
	}
	text, _, _ := bytes.Cut(info.text[:], []byte{0})
	return LogReplay{info.calls, info.mismatches, info.firstMismatch, info.digest, info.lostCalls, info.libraryVersion, string(text)}, nil
}
