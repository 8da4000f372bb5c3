// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"errors"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Error is a failed call, which changed nothing. Status is its KVC_ERROR_*. Text says what was wrong, the value, the limit
// and the fix. errors.Is(err, ErrNoSpace) compares only the status; ErrAgain, ErrOverQuota and ErrNeverFits are kinds of
// ErrNoSpace. ErrNeverFits alone is for good: test for it first.
type Error = native.Error

// One error per status, for errors.Is.
var (
	ErrInvalidArgument = &Error{Status: C.KVC_ERROR_INVALID_ARGUMENT, Text: "invalid argument"}
	ErrOutOfMemory     = &Error{Status: C.KVC_ERROR_OUT_OF_MEMORY, Text: "out of memory"}
	ErrNoSpace         = &Error{Status: C.KVC_ERROR_NO_SPACE, Text: "no space"}
	ErrNotFound        = &Error{Status: C.KVC_ERROR_NOT_FOUND, Text: "not found"}
	ErrBusy            = &Error{Status: C.KVC_ERROR_BUSY, Text: "busy"}
	ErrLimit           = &Error{Status: C.KVC_ERROR_LIMIT, Text: "limit"}
	ErrBufferTooSmall  = &Error{Status: C.KVC_ERROR_BUFFER_TOO_SMALL, Text: "buffer too small"}
	ErrUnsupported     = &Error{Status: C.KVC_ERROR_UNSUPPORTED, Text: "unsupported"}
	ErrNotHeld         = &Error{Status: C.KVC_ERROR_NOT_HELD, Text: "not held"}
	ErrCorrupt         = &Error{Status: C.KVC_ERROR_CORRUPT, Text: "corrupt"}
	ErrInternal        = &Error{Status: C.KVC_ERROR_INTERNAL, Text: "internal"}
	ErrAgain           = &Error{Status: C.KVC_ERROR_AGAIN, Text: "no space until steps in flight are retired"}
	ErrDevice          = &Error{Status: C.KVC_ERROR_DEVICE, Text: "device"}
	ErrOverQuota       = &Error{Status: C.KVC_ERROR_OVER_QUOTA, Text: "no space within the quota of the namespace"}
	ErrNeverFits       = &Error{Status: C.KVC_ERROR_NEVER_FITS, Text: "this manager can never hold it: end the request"}
	ErrFilling         = &Error{Status: C.KVC_ERROR_FILLING, Text: "another request computes the next tokens"}
)

// ErrClosed is returned by every call on a closed object.
var ErrClosed = errors.New("kvcache: closed")

// liveObjects counts objects of the library that exist, to find leaks.
var liveObjects int64

// Status is the result of one item of a Step or a batch: 0, or a KVC_ERROR_*.
type Status int32

// Statuses that an engine handles. Any other is a bug in the engine.
const (
	StatusOK      Status = C.KVC_OK
	StatusNoSpace Status = C.KVC_ERROR_NO_SPACE // too few blocks are free or evictable
	StatusAgain   Status = C.KVC_ERROR_AGAIN    // there is space when the steps in flight are retired; not equal to StatusNoSpace
	StatusSkipped Status = C.KVC_ERROR_SKIPPED  // not tried: an earlier admission had no space; or all or none, and another was refused
	// The namespace would have more blocks than its quota allows; not equal to StatusNoSpace.
	StatusOverQuota Status = C.KVC_ERROR_OVER_QUOTA
	// This manager can never hold it: end the request; not equal to StatusNoSpace.
	StatusNeverFits Status = C.KVC_ERROR_NEVER_FITS
	StatusFilling   Status = C.KVC_ERROR_FILLING // another request computes the next tokens: admit again in the next steps
)

// String is the name in C, such as "KVC_ERROR_NO_SPACE".
func (s Status) String() string { return C.GoString(C.kvc_status_name(C.kvc_status(s))) }

// BuildInfo is the version, compiler and instruction sets of the library, in one line.
func BuildInfo() string { return C.GoString(C.kvc_build_info()) }
