// SPDX-License-Identifier: Apache-2.0

package kvcache_test

import (
	"fmt"
	"log"
	"time"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

// The blocks of a prompt are put in a tier, and got by an engine that has not computed them.
func ExampleTier() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	m, err := kvcache.New(kvcache.Config{NumBlocks: 64})
	must(err)
	defer m.Close()
	storage, err := kvcache.NewStorage(kvcache.StorageConfig{NumBlocks: 64, NumLayers: 2, NumHeads: 4, HeadDim: 32})
	must(err)
	defer storage.Close()
	prompt := make([]int32, 100)

	info, err := storage.PageInfo(kvcache.PageConfig{Model: []byte("my-model"), Weights: []byte("weights of May")})
	must(err)
	tier, err := kvcache.OpenTier(kvcache.TierConfig{URL: "memory:?bytes=64MiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
	must(err)
	defer tier.Close()
	digests, err := m.PositionDigests(0, prompt, nil) // one for each full block
	must(err)
	keys, err := kvcache.PageKeys(digests, 0, info.Fingerprint)
	must(err)
	pages := make([]byte, uint64(len(keys))*info.PageBytes)

	request, _, err := m.AllocateRequest(prompt, nil)
	must(err)
	blocks, err := m.BlockTable(request, 0)
	must(err)
	must(storage.PackPages(blocks[:len(keys)], pages, 0)) // an engine that has computed the prompt puts its blocks
	put, err := tier.Put(keys, pages, nil)
	must(err)

	got, err := tier.Get(keys, pages, &kvcache.JobOptions{Timeout: time.Second}) // another one gets them
	must(err)
	for i, result := range got.Results {
		if result == kvcache.PageOK { // a page with another result has undefined bytes
			must(storage.UnpackPages(blocks[i:i+1], pages[uint64(i)*info.PageBytes:][:info.PageBytes], 0))
		}
	}
	fmt.Println(put.NumOK, "pages put,", got.NumOK, "found")
	// Output: 6 pages put, 6 found
}
