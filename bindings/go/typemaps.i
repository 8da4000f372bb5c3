// SPDX-License-Identifier: Apache-2.0
// What the declarations of kvcache.i mean in Go. Slices are passed as they are: C keeps no pointer. Structs are Go structs
// of the same layout, and objects are addresses; the hand-written layer owns both. The error text is copied in the same call
// into C: a goroutine may continue in another thread, and kvc_last_error has a text for each thread.

%insert(cgo_comment_typedefs) %{
#cgo pkg-config: kvcache
#include <stdlib.h>
%}

%insert(go_wrapper) %{
// Error is a failed call: its KVC_ERROR_* and the text, with value, limit and fix.
type Error struct {
	Status int32
	Text   string
}

func (e *Error) Error() string { return e.Text }

// KVC_ERROR_NO_SPACE, and KVC_ERROR_AGAIN, KVC_ERROR_OVER_QUOTA and KVC_ERROR_NEVER_FITS, which are kinds of it.
const noSpace, again, overQuota, neverFits = 3, 12, 15, 17

// Is makes errors.Is compare the status alone.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && (other.Status == e.Status || (e.Status == again || e.Status == overQuota || e.Status == neverFits) && other.Status == noSpace)
}

func takeError(failure *byte) error {
	if failure == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(failure))
	text := (*C.char)(unsafe.Add(unsafe.Pointer(failure), 4))
	return &Error{Status: *(*int32)(unsafe.Pointer(failure)), Text: C.GoString(text)}
}
%}

%{
// Status and text of this thread's failed call, to be freed by the caller; ends the process if there is no memory for it,
// as Go does.
static void* kvc_copy_error(kvc_status status) {
  const char* text = kvc_last_error();
  char* copy = (char*)malloc(sizeof status + strlen(text) + 1);
  if (!copy) abort();
  memcpy(copy, &status, sizeof status);
  strcpy(copy + sizeof status, text);
  return copy;
}
%}

%typemap(gotype) kvc_status "error"
%typemap(imtype) kvc_status "*byte"
%typemap(out) kvc_status "$result = $1 == KVC_OK ? NULL : kvc_copy_error($1);"
%typemap(goout) kvc_status "$result = takeError($1)"

// SWIG's own mapping of fixed-size integers truncates silently.
%define KVC_GO_INTEGER(TYPE, GOTYPE)
%typemap(gotype) TYPE, const TYPE & "GOTYPE"
%typemap(in) TYPE "$1 = ($1_ltype)$input;"
%typemap(out) TYPE "$result = $1;"
%enddef
KVC_GO_INTEGER(int32_t, int32)
KVC_GO_INTEGER(uint32_t, uint32)
KVC_GO_INTEGER(int64_t, int64)
KVC_GO_INTEGER(uint64_t, uint64)
KVC_GO_INTEGER(size_t, uint64)

%define KVC_LONG_CALL(name)
%enddef

%define KVC_RESULT(TYPE, NAME)
%typemap(gotype) TYPE *NAME "*uint64"
%typemap(in) TYPE *NAME "$1 = ($1_ltype)$input;"
%enddef

#define KVC_GO_BYTES "[]byte"
#define KVC_GO_INT32 "[]int32"
#define KVC_GO_INT64 "[]int64"
#define KVC_GO_UINT64 "[]uint64"

%define KVC_GO_ARRAY(QUALIFIED, GOTYPE, SIZE, POINTER, COUNT)
%typemap(gotype) (QUALIFIED *POINTER, size_t COUNT) GOTYPE
%typemap(in) (QUALIFIED *POINTER, size_t COUNT) %{
  $1 = ($1_ltype)$input.array;
  $2 = (size_t)$input.len / SIZE;
%}
%enddef
%define KVC_IN(TYPE, ELEMENT, POINTER, COUNT)
KVC_GO_ARRAY(const TYPE, KVC_GO_ ## ELEMENT, 1, POINTER, COUNT)
%enddef
%define KVC_OUT(TYPE, ELEMENT, POINTER, COUNT)
KVC_GO_ARRAY(TYPE, KVC_GO_ ## ELEMENT, 1, POINTER, COUNT)
%enddef
%define KVC_IN_RECORDS(TYPE, POINTER, COUNT)
KVC_GO_ARRAY(const TYPE, "[]byte", sizeof(TYPE), POINTER, COUNT)
%enddef
%define KVC_OUT_RECORDS(TYPE, POINTER, COUNT)
KVC_GO_ARRAY(TYPE, "[]byte", sizeof(TYPE), POINTER, COUNT)
%enddef

%define KVC_GO_POINTER(QUALIFIED, GOTYPE, POINTER)
%typemap(gotype) QUALIFIED *POINTER GOTYPE
%typemap(in) QUALIFIED *POINTER "$1 = ($1_ltype)$input.array;"
%enddef
%define KVC_IN_ARRAY(TYPE, ELEMENT, POINTER)
KVC_GO_POINTER(const TYPE, KVC_GO_ ## ELEMENT, POINTER)
%enddef
%define KVC_OUT_ARRAY(TYPE, ELEMENT, POINTER)
KVC_GO_POINTER(TYPE, KVC_GO_ ## ELEMENT, POINTER)
%enddef

%define KVC_STRUCT(TYPE)
%ignore TYPE;
%typemap(gotype) TYPE *, const TYPE * "*byte"
%typemap(in) TYPE *, const TYPE * "$1 = ($1_ltype)$input;"
%enddef
%define KVC_OBJECT(TYPE, NAME)
%ignore TYPE;
%ignore TYPE ## _destroy;
%typemap(gotype) TYPE *, const TYPE * "uintptr"
%typemap(in) TYPE *, const TYPE * "$1 = ($1_ltype)$input;"
%typemap(gotype) TYPE **NAME "*uintptr"
%typemap(in) TYPE **NAME "$1 = ($1_ltype)$input;"
%enddef
%define KVC_OBJECTS(TYPE, POINTER, COUNT)
KVC_GO_ARRAY(TYPE *const, "[]uintptr", 1, POINTER, COUNT)
%enddef
KVC_STRUCT(kvc_view)
KVC_STRUCT(kvc_selection)
%typemap(gotype) kvc_stream *stream "uintptr"
%typemap(in) kvc_stream *stream "$1 = ($1_ltype)$input;"

// A status as argument is no error; the layer asks C itself.
%ignore kvc_status_name;

// Go's own names for constants: kvcache/constants.go.
%rename("$ignore", %$isenumitem) "";
%rename("$ignore", %$isenum) "";
%rename("$ignore", %$isconstant) "";
