// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"reflect"
	"testing"
)

func TestRebuildCarriesPrefixesAndTheirBytes(t *testing.T) {
	m, err := New(Config{NumBlocks: 16, BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tenant, _ := m.OpenNamespace(Identity{Tenant: []byte("a")})
	prompt := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	request, _, err := m.AllocateRequest(prompt, &RequestOptions{Namespace: tenant})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CommitTokens(request, len(prompt)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Rebuild(Config{NumBlocks: 16, BlockSize: 3}); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if err := m.FreeRequest(request); err != nil {
		t.Fatal(err)
	}
	made, err := m.Rebuild(Config{NumBlocks: 16, BlockSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Manager.Close()
	wanted := []TokenCopy{{0, 0, 0, 0, 0, 3}, {0, 0, 1, 3, 0, 1}, {0, 1, 1, 0, 1, 2}}
	if !reflect.DeepEqual(made.Copies, wanted) {
		t.Fatal(made.Copies)
	}
	info, err := made.Manager.Probe(made.Namespaces[tenant], prompt, nil)
	if err != nil || info.NumCached != 6 {
		t.Fatal(info, err)
	}
	shape := StorageConfig{NumBlocks: 16, NumLayers: 1, NumHeads: 1, HeadDim: 2, BlockSize: 4}
	from, err := NewStorage(shape)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	shape.BlockSize = 3
	to, err := NewStorage(shape)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	k, v := make([]float32, 16), make([]float32, 16)
	for i := range k {
		k[i], v[i] = float32(i), float32(-i)
	}
	slots := []int64{0, 1, 2, 3, 4, 5, 6, 7}
	if err := from.Store(0, 1, k, v, slots); err != nil {
		t.Fatal(err)
	}
	if err := to.CopyTokens(from, made.Copies); err != nil {
		t.Fatal(err)
	}
	k2, v2 := make([]float32, 12), make([]float32, 12)
	if err := to.Gather(0, 1, k2, v2, slots[:6]); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(k2, k[:12]) || !reflect.DeepEqual(v2, v[:12]) {
		t.Fatal(k2, v2)
	}
	if _, err := m.Rebuild(Config{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}
