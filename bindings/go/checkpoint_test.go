// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestACheckpointGivesTheSameHitsAndBytes(t *testing.T) {
	folder, prompt := t.TempDir()+"/c", sequence(100, 21)
	m, s := newManager(t, Config{NumBlocks: 32, BlockSize: 4}), lifeStorage(t, 32)
	rows := compute(t, m, s, prompt, nil)
	namespaces := map[Namespace]bool{}
	for i := 0; i < 30; i++ { // more than a first guess
		n, err := m.OpenNamespace(Identity{Tenant: []byte(fmt.Sprint(i))})
		must(t, err)
		namespaces[n] = true
	}
	waiting, err := m.CreateRequest(prompt, nil)
	must(t, err)
	config := CheckpointConfig{Folder: folder, Pages: lifePages, Requests: true}
	saved, err := m.SaveCheckpoint([]*Storage{s}, config)
	must(t, err)
	digest, err := m.ContentDigest()
	must(t, err)
	if saved.ID != 1 || saved.NumPages != 5 || saved.NewPages != 5 || saved.NumBlocks != 5 || saved.Content != digest || saved.NumNamespaces != 30 ||
		saved.NumRequests != 1 || saved.Model != "a model" || saved.Weights != "of May" || saved.Codec != "none" || saved.BlockSize != 4 || saved.NumGroups != 1 {
		t.Fatalf("%+v", saved)
	}
	next, memory := newManager(t, Config{NumBlocks: 32, BlockSize: 4}), lifeStorage(t, 32)
	restored, err := next.RestoreCheckpoint([]*Storage{memory}, config)
	must(t, err)
	if !restored.Info.IDsKept || restored.Info.NumBlocks != 5 || len(restored.Namespaces) != 30 || len(restored.Requests) != 1 {
		t.Fatalf("%+v", restored)
	}
	for old := range restored.Namespaces {
		equal(t, namespaces[old], true)
	}
	again, err := next.ContentDigest()
	must(t, err)
	equal(t, again, digest)
	r := restored.Requests[waiting]
	cached, err := next.AdmitRequest(r)
	must(t, err)
	equal(t, cached, 20)
	equal(t, stored(t, next, memory, r, 20), rows[:20*2*8])
	if _, err := next.RestoreCheckpoint([]*Storage{memory}, config); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
}

func TestCheckpointsAreListedValidatedCompactedAndRemoved(t *testing.T) {
	folder := t.TempDir()
	m, s := newManager(t, Config{NumBlocks: 32, BlockSize: 4}), lifeStorage(t, 32)
	config := CheckpointConfig{Folder: folder, Pages: lifePages, NoSync: true, Increment: true}
	if _, err := m.SaveCheckpoint([]*Storage{s}, config); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	config.Increment = false
	for i := 0; i < 3; i++ {
		compute(t, m, s, sequence(100*i, 21), nil)
		saved, err := m.SaveCheckpoint([]*Storage{s}, config)
		must(t, err)
		equal(t, []uint64{saved.ID, saved.NewPages, saved.NumPages, saved.NumFiles}, []uint64{uint64(i + 1), 5, uint64(5*i + 5), uint64(i + 1)})
		config.Increment = true
	}
	ids, err := Checkpoints(folder)
	must(t, err)
	equal(t, ids, []uint64{1, 2, 3})
	newest, err := ReadCheckpointInfo(folder, 0)
	must(t, err)
	middle, err := ValidateCheckpoint(folder, 2)
	must(t, err)
	equal(t, []uint64{newest.ID, newest.NumPages, middle.NumPages}, []uint64{3, 15, 10})
	must(t, RemoveCheckpoint(folder, 2))
	compacted, err := CompactCheckpoint(CheckpointConfig{Folder: folder, KeepLast: 1, NoSync: true})
	must(t, err)
	equal(t, []uint64{compacted.ID, compacted.NumFiles, compacted.NumPages}, []uint64{4, 1, 15})
	ids, err = Checkpoints(folder)
	must(t, err)
	equal(t, ids, []uint64{4})
	config.Interval, config.LastNs, config.NowNs = time.Second, 5, 6
	early, err := m.SaveCheckpoint([]*Storage{s}, config)
	must(t, err)
	equal(t, early.ID, uint64(0))

	files, err := filepath.Glob(folder + "/*")
	must(t, err)
	for _, file := range files { // a bit of the largest file
		if info, err := os.Stat(file); err == nil && info.Size() > 8192 {
			content, err := os.ReadFile(file)
			must(t, err)
			content[5000] ^= 1
			must(t, os.WriteFile(file, content, 0o600))
		}
	}
	if _, err := ValidateCheckpoint(folder, 0); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), folder) {
		t.Fatal(err)
	}
	config.Interval = 0
	fresh := newManager(t, Config{NumBlocks: 32, BlockSize: 4})
	if _, err := fresh.RestoreCheckpoint([]*Storage{lifeStorage(t, 32)}, config); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestWrongUseOfCheckpointsIsNamed(t *testing.T) {
	folder := t.TempDir()
	m, s := newManager(t, Config{NumBlocks: 32, BlockSize: 4}), lifeStorage(t, 32)
	compute(t, m, s, sequence(0, 21), nil)
	good := CheckpointConfig{Folder: folder, Pages: lifePages}
	saved, err := m.SaveCheckpoint([]*Storage{nil}, good) // without bytes
	must(t, err)
	equal(t, []uint64{saved.NumBlocks, saved.NumPages}, []uint64{5, 0})
	closed := lifeStorage(t, 32)
	must(t, closed.Close())
	other := good
	other.Pages.Weights = []byte("of June")
	for text, call := range map[string]func() error{
		"num_storages is 2": func() error { return second(m.SaveCheckpoint([]*Storage{s, s}, good)) },
		"num_storages is 0": func() error { return second(m.SaveCheckpoint(nil, good)) },
		"kvcache: closed":   func() error { return second(m.SaveCheckpoint([]*Storage{closed}, good)) },
		"folder is empty":   func() error { return second(m.SaveCheckpoint([]*Storage{s}, CheckpointConfig{Pages: lifePages})) },
		"Interval is -1ns": func() error {
			return second(m.SaveCheckpoint([]*Storage{s}, CheckpointConfig{Folder: folder, Interval: -1}))
		},
		"nowhere":           func() error { return second(Checkpoints(folder + "/nowhere")) },
		"id":                func() error { return RemoveCheckpoint(folder, 0) },
		"has no checkpoint": func() error { return second(ReadCheckpointInfo(folder, 77)) },
		"weights": func() error {
			return second(newManager(t, Config{NumBlocks: 32, BlockSize: 4}).RestoreCheckpoint([]*Storage{s}, other))
		},
		"group 0 has no storage": func() error {
			return second(newManager(t, Config{NumBlocks: 32, BlockSize: 4}).RestoreCheckpoint([]*Storage{nil}, good))
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
