// SPDX-License-Identifier: Apache-2.0

// A module that uses the package as an engine would: by a replace directive, without a network.
package main

import (
	"errors"
	"fmt"
	"os"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

func main() {
	m, err := kvcache.New(kvcache.Config{NumBlocks: 2})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer m.Close()
	if _, _, err := m.AllocateRequest(make([]int32, 20), nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _, err = m.AllocateRequest(make([]int32, 20), nil)
	fmt.Println(errors.Is(err, kvcache.ErrNoSpace), err)
	if !errors.Is(err, kvcache.ErrNoSpace) {
		os.Exit(1)
	}
}
