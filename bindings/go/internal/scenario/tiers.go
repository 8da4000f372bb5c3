// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"time"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

// tiers is what the lines about tiers and pages work on.
type tiers struct {
	tier *kvcache.Tier
	page int
	now  uint64
}

// keys of the pages of a prompt: namespace, first token, number of tokens.
func (r *runner) keys(a []int, group int) ([][32]byte, error) {
	digests, err := r.m.PositionDigests(r.namespace(a[0]), sequence(a[1], a[2]), nil)
	if err != nil {
		return nil, err
	}
	return kvcache.PageKeys(digests, uint32(group), [32]byte{})
}

func (r *runner) openTier(a []int) (err error) {
	if r.tiers.tier != nil {
		r.tiers.tier.Close()
	}
	r.tiers.page, r.tiers.now = a[1], 1
	r.tiers.tier, err = kvcache.OpenTier(kvcache.TierConfig{URL: fmt.Sprintf("memory:?bytes=%d&threads=0", a[0]), PageBytes: uint64(a[1]), Fingerprint: [32]byte{1}})
	return err
}

func (r *runner) pages() (string, error) {
	stats, err := r.tiers.tier.Stats()
	if err != nil {
		return "", err
	}
	gets, err := r.tiers.tier.Counts(kvcache.TierGet)
	return fmt.Sprintf(" %d %d %d %d", stats.Pages, stats.Evictions, gets.OK, gets.Misses), err
}

func (r *runner) tierLine(word string, a []int) (text string, err error) {
	switch word {
	case "tier":
		return "", r.openTier(a)
	case "clock":
		r.tiers.now = uint64(a[0])
		return "", nil
	case "pages":
		return r.pages()
	}
	group := 0
	if word == "page" {
		group = a[3]
	}
	keys, err := r.keys(a, group)
	if err != nil {
		return "", err
	}
	options, pages := &kvcache.JobOptions{NowNs: r.tiers.now}, make([]byte, len(keys)*r.tiers.page)
	var done kvcache.JobResult
	switch word {
	case "page":
		for _, key := range keys {
			text += fmt.Sprintf(" %x", key[:2])
		}
		return text, nil
	case "put":
		done, err = r.tiers.tier.Put(keys, bytes.Repeat([]byte{byte(a[3])}, len(pages)), options)
	case "get":
		done, err = r.tiers.tier.Get(keys, pages, options)
	case "lease":
		options.Lease = time.Duration(a[3])
		done, err = r.tiers.tier.Exists(keys, options)
	case "erase":
		done, err = r.tiers.tier.Remove(keys, options)
	}
	for i, result := range done.Results {
		text += fmt.Sprint(" ", int32(result))
		if word == "get" && result == kvcache.PageOK {
			text += fmt.Sprint(":", pages[i*r.tiers.page])
		} else if word == "lease" {
			text += fmt.Sprint(":", done.LeaseUntilNs[i])
		}
	}
	return text, err
}
