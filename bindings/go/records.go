// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "unsafe"

// Structs of the C headers with the same layout, so that the library fills them in place. Each passes its own size: a newer
// library with longer structs fills the fields that are here.

// Event is a change of what can be found: kvc_event. Kind is an Event* constant. A gap in Sequence means that events were lost.
type Event struct {
	Sequence, TimeNs, Epoch, NamespaceID, Node, ParentNode, TokenOffset uint64
	Kind, Group, NumTokens                                              uint32
	Block                                                               int32
	Digest, ParentDigest, ExtraDigest                                   [32]byte
}

// ExtraKey identifies a span of tokens that their ids alone do not identify, such as the placeholder tokens of an image.
type ExtraKey struct {
	FirstToken, NumTokens uint64
	Digest                [32]byte
}

// BlockCopy says: copy the contents of block Source to block Destination.
type BlockCopy struct{ Source, Destination int32 }

// TokenCopy says: copy NumTokens tokens of a group from Offset on in block Source of the old memory to NewOffset on in block Destination of the
// new one.
type TokenCopy struct {
	Group                        uint32
	Source, Destination          int32
	Offset, NewOffset, NumTokens uint32
}

// namespacePair is kvc_namespace_pair.
type namespacePair struct{ oldID, newID uint64 }

// TableChange says that BlockTables[Group][Row][Column] became Block.
type TableChange struct{ Group, Row, Column, Block int32 }

// sizesInC are the sizes in C. A test compares them with those of the structs above.
var sizesInC = map[string]uintptr{
	"logReplay": C.sizeof_kvc_replay_info,
	"Event":     C.sizeof_kvc_event, "ExtraKey": C.sizeof_kvc_extra_key, "BlockCopy": C.sizeof_kvc_block_copy,
	"TokenCopy": C.sizeof_kvc_token_copy, "namespacePair": C.sizeof_kvc_namespace_pair,
	"TableChange": C.sizeof_kvc_table_change, "requestConfig": C.sizeof_kvc_request_config,
	"Metrics": C.sizeof_kvc_quant_metrics, "Run": C.sizeof_kvc_run,
	"EncoderInput": C.sizeof_kvc_encoder_input, "EncoderRun": C.sizeof_kvc_encoder_run, "EndedRequest": C.sizeof_kvc_ended_request,
}

// asByte is a struct as the native layer takes it.
func asByte[T any](value *T) *byte { return (*byte)(unsafe.Pointer(value)) }

// asBytes is an array of structs, in place, as bytes.
func asBytes[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}
