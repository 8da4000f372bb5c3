// SPDX-License-Identifier: Apache-2.0
// What the declarations of kvcache.i mean in Java. Arrays are direct buffers in native order, used in place from their
// position to their limit. Objects are addresses, which the hand-written layer keeps. All generated code is private to the
// package.

%pragma(java) moduleclassmodifiers="final class"
%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) jniclasscode=%{
  static {
    NativeLibrary.load();
  }
%}
%typemap(javaclassmodifiers) SWIGTYPE, SWIGTYPE *, SWIGTYPE & "final class"
%typemap(javafinalize) SWIGTYPE ""
// A struct is memory of C, which try-with-resources frees.
%typemap(javainterfaces) SWIGTYPE "AutoCloseable"
%typemap(javacode) SWIGTYPE "  @Override public void close() { delete(); }"

%{
// With the text of this thread's failed call, which is copied before any other code of Java runs.
static void kvc_throw(JNIEnv* jenv, kvc_status status) {
  jstring text = (*jenv)->NewStringUTF(jenv, kvc_last_error());
  jclass type = text ? (*jenv)->FindClass(jenv, "io/kvcache/KvCacheException") : NULL;
  jmethodID of = type ? (*jenv)->GetStaticMethodID(jenv, type, "of", "(ILjava/lang/String;)Lio/kvcache/KvCacheException;") : NULL;
  jobject exception = of ? (*jenv)->CallStaticObjectMethod(jenv, type, of, (jint)status, text) : NULL;
  if (!(*jenv)->ExceptionCheck(jenv) && exception) (*jenv)->Throw(jenv, (jthrowable)exception);
}

static void kvc_throw_new(JNIEnv* jenv, const char* type, const char* text) {
  jclass of = (*jenv)->FindClass(jenv, type);
  if (of) (*jenv)->ThrowNew(jenv, of, text);
}

// What the hand-written layer has checked: direct, or null.
static void kvc_buffer(JNIEnv* jenv, jobject buffer, void** data, size_t* count) {
  *data = buffer ? (*jenv)->GetDirectBufferAddress(jenv, buffer) : NULL;
  *count = *data ? (size_t)(*jenv)->GetDirectBufferCapacity(jenv, buffer) : 0;
}
%}

%typemap(jni) kvc_status "void"
%typemap(jtype) kvc_status "void"
%typemap(jstype) kvc_status "void"
%typemap(javaout) kvc_status "{ $jnicall; }"
%typemap(out, throws="KvCacheException") kvc_status "if ($1 != KVC_OK) kvc_throw(jenv, $1);"
%ignore kvc_status_name;

%apply int { int32_t, uint32_t };
%apply long long { int64_t, uint64_t, size_t };

%define KVC_LONG_CALL(name)
%enddef

%define KVC_RESULT(TYPE, NAME)
%typemap(jni) TYPE *NAME "jlongArray"
%typemap(jtype) TYPE *NAME "long[]"
%typemap(jstype) TYPE *NAME "long[]"
%typemap(javain) TYPE *NAME "$javainput"
%typemap(in) TYPE *NAME (TYPE value = 0) "$1 = &value;"
%typemap(argout) TYPE *NAME {
  const jlong number = (jlong)*$1;
  if (result == KVC_OK) (*jenv)->SetLongArrayRegion(jenv, $input, 0, 1, &number);
}
%typemap(freearg) TYPE *NAME ""
%enddef

#define KVC_JAVA_BYTES "java.nio.ByteBuffer"
#define KVC_JAVA_INT32 "java.nio.IntBuffer"
#define KVC_JAVA_INT64 "java.nio.LongBuffer"
#define KVC_JAVA_UINT64 "java.nio.LongBuffer"

%define KVC_JAVA_ALIGNED(DATA, TYPE, NAME)
if ((uintptr_t)DATA % __alignof__(TYPE) != 0) {
    kvc_throw_new(jenv, "java/lang/IllegalArgumentException",
                  NAME " begins at an address that is no multiple of the bytes of its elements; make it with io.kvcache.Buffers");
    return $null;
  }
%enddef
%define KVC_JAVA_ARRAY(QUALIFIED, TYPE, BUFFER, SIZE, CHECK, POINTER, COUNT)
%typemap(jni) (QUALIFIED *POINTER, size_t COUNT) "jobject"
%typemap(jtype) (QUALIFIED *POINTER, size_t COUNT) BUFFER
%typemap(jstype) (QUALIFIED *POINTER, size_t COUNT) BUFFER
%typemap(javain) (QUALIFIED *POINTER, size_t COUNT) "Buffers.CHECK($javainput)"
%typemap(in) (QUALIFIED *POINTER, size_t COUNT) {
  void* data;
  kvc_buffer(jenv, $input, &data, &$2);
  KVC_JAVA_ALIGNED(data, TYPE, "POINTER")
  $1 = ($1_ltype)data;
  $2 /= SIZE;
}
%typemap(freearg) (QUALIFIED *POINTER, size_t COUNT) ""
%typemap(argout) (QUALIFIED *POINTER, size_t COUNT) ""
%enddef
%define KVC_IN(TYPE, ELEMENT, POINTER, COUNT)
KVC_JAVA_ARRAY(const TYPE, TYPE, KVC_JAVA_ ## ELEMENT, 1, readable, POINTER, COUNT)
%enddef
%define KVC_OUT(TYPE, ELEMENT, POINTER, COUNT)
KVC_JAVA_ARRAY(TYPE, TYPE, KVC_JAVA_ ## ELEMENT, 1, writable, POINTER, COUNT)
%enddef
%define KVC_IN_RECORDS(TYPE, POINTER, COUNT)
KVC_JAVA_ARRAY(const TYPE, TYPE, "java.nio.ByteBuffer", sizeof(TYPE), readable, POINTER, COUNT)
%enddef
%define KVC_OUT_RECORDS(TYPE, POINTER, COUNT)
KVC_JAVA_ARRAY(TYPE, TYPE, "java.nio.ByteBuffer", sizeof(TYPE), writable, POINTER, COUNT)
%enddef

%define KVC_JAVA_POINTER(QUALIFIED, TYPE, BUFFER, CHECK, POINTER)
%typemap(jni) QUALIFIED *POINTER "jobject"
%typemap(jtype) QUALIFIED *POINTER BUFFER
%typemap(jstype) QUALIFIED *POINTER BUFFER
%typemap(javain) QUALIFIED *POINTER "Buffers.CHECK($javainput)"
%typemap(in) QUALIFIED *POINTER {
  void* data;
  size_t count;
  kvc_buffer(jenv, $input, &data, &count);
  KVC_JAVA_ALIGNED(data, TYPE, "POINTER")
  $1 = ($1_ltype)data;
}
%typemap(freearg) QUALIFIED *POINTER ""
%typemap(argout) QUALIFIED *POINTER ""
%enddef
%define KVC_IN_ARRAY(TYPE, ELEMENT, POINTER)
KVC_JAVA_POINTER(const TYPE, TYPE, KVC_JAVA_ ## ELEMENT, readable, POINTER)
%enddef
%define KVC_OUT_ARRAY(TYPE, ELEMENT, POINTER)
KVC_JAVA_POINTER(TYPE, TYPE, KVC_JAVA_ ## ELEMENT, writable, POINTER)
%enddef

%define KVC_OBJECT(TYPE, NAME)
%ignore TYPE;
%typemap(jni) TYPE *, const TYPE * "jlong"
%typemap(jtype) TYPE *, const TYPE * "long"
%typemap(jstype) TYPE *, const TYPE * "long"
%typemap(javain) TYPE *, const TYPE * "$javainput"
%typemap(in) TYPE *, const TYPE * "$1 = ($1_ltype)(intptr_t)$input;"
%typemap(jni) TYPE **NAME "jlongArray"
%typemap(jtype) TYPE **NAME "long[]"
%typemap(jstype) TYPE **NAME "long[]"
%typemap(javain) TYPE **NAME "$javainput"
%typemap(in) TYPE **NAME (TYPE *object = NULL) "$1 = &object;"
%typemap(argout) TYPE **NAME {
  const jlong address = (jlong)(intptr_t)*$1;
  if (result == KVC_OK) (*jenv)->SetLongArrayRegion(jenv, $input, 0, 1, &address);
}
%enddef
%define KVC_OBJECTS(TYPE, POINTER, COUNT)
%typemap(jni) (TYPE *const *POINTER, size_t COUNT) "jlongArray"
%typemap(jtype) (TYPE *const *POINTER, size_t COUNT) "long[]"
%typemap(jstype) (TYPE *const *POINTER, size_t COUNT) "long[]"
%typemap(javain) (TYPE *const *POINTER, size_t COUNT) "$javainput"
%typemap(in) (TYPE *const *POINTER, size_t COUNT) (jlong some[64]) {
  $2 = $input ? (size_t)(*jenv)->GetArrayLength(jenv, $input) : 0;
  if ($2 > 64) {
    kvc_throw_new(jenv, "java/lang/IllegalArgumentException", "POINTER has more than 64 objects");
    return $null;
  }
  if ($2) (*jenv)->GetLongArrayRegion(jenv, $input, 0, (jsize)$2, some);
  $1 = ($1_ltype)some;
}
%typemap(argout) (TYPE *const *POINTER, size_t COUNT) ""
%typemap(freearg) (TYPE *const *POINTER, size_t COUNT) ""
%enddef
%typemap(jni) kvc_stream *stream "jlong"
%typemap(jtype) kvc_stream *stream "long"
%typemap(jstype) kvc_stream *stream "long"
%typemap(javain) kvc_stream *stream "$javainput"
%typemap(in) kvc_stream *stream "$1 = (kvc_stream*)(intptr_t)$input;"

// Memory of the library as a direct buffer.
%ignore kvc_view;
%ignore kvc_step_view;
%ignore kvc_storage_view;
%{
typedef struct kvc_bytes {
  void* data;
  size_t size;
} kvc_bytes;
%}
%typemap(jni) kvc_bytes "jobject"
%typemap(jtype) kvc_bytes "java.nio.ByteBuffer"
%typemap(jstype) kvc_bytes "java.nio.ByteBuffer"
%typemap(javaout) kvc_bytes "{ return $jnicall; }"
%typemap(out) kvc_bytes %{
  if ($1.size > INT32_MAX) {
    kvc_throw_new(jenv, "java/lang/IllegalStateException", "the array has more than 2^31 - 1 bytes, which no buffer holds; make it smaller");
    return $null;
  }
  $result = (*jenv)->NewDirectByteBuffer(jenv, $1.data, (jlong)$1.size);
%}

KVC_OBJECT(kvc_step, step)
KVC_OBJECT(kvc_storage, storage)
%inline %{
// An array of a made step; array -1: the step itself, whose fields are at the offsets below.
static kvc_bytes kvc_step_bytes(kvc_step *step, int32_t array) {
  kvc_view view;
  kvc_bytes bytes = {step, sizeof *step};
  if (array >= 0 && kvc_step_view(step, array, &view) == KVC_OK) {
    bytes.data = view.data;
    bytes.size = (size_t)(view.shape[0] * view.strides[0]);
  }
  return bytes;
}
%}
%inline %{
// All blocks of a storage.
static kvc_bytes kvc_storage_bytes(kvc_storage *s) {
  kvc_storage_info info = {.struct_size = sizeof info};
  kvc_bytes bytes = {NULL, 0};
  if (kvc_storage_properties(s, &info) == KVC_OK) bytes.data = info.data, bytes.size = info.slab_bytes;
  return bytes;
}
%}
KVC_IN_RECORDS(char, array, num_bytes)
KVC_IN(int32_t, INT32, array, num_ints)
KVC_IN(int64_t, INT64, array, num_longs)
%inline %{
// Where the blocks of a storage are, and arrays of the caller.
static long long kvc_storage_address(kvc_storage *s) {
  kvc_storage_info info = {.struct_size = sizeof info};
  return kvc_storage_properties(s, &info) == KVC_OK ? (long long)(intptr_t)info.data : 0;
}
static long long kvc_bytes_address(const char *array, size_t num_bytes) {
  (void)num_bytes;
  return (long long)(intptr_t)array;
}
static long long kvc_ints_address(const int32_t *array, size_t num_ints) {
  (void)num_ints;
  return (long long)(intptr_t)array;
}
static long long kvc_longs_address(const int64_t *array, size_t num_longs) {
  (void)num_longs;
  return (long long)(intptr_t)array;
}
%}
%define KVC_OFFSET(FIELD)
%constant int STEP_AT_ ## FIELD = offsetof(kvc_step, FIELD);
%enddef
KVC_OFFSET(flags)
KVC_OFFSET(fill_id)
KVC_OFFSET(retired_step)
KVC_OFFSET(now_ns)
KVC_OFFSET(step_id)
KVC_OFFSET(num_frees)
KVC_OFFSET(num_preempts)
KVC_OFFSET(num_truncates)
KVC_OFFSET(num_requests)
KVC_OFFSET(num_admissions)
KVC_OFFSET(num_rows)
KVC_OFFSET(row_stride)
KVC_OFFSET(num_slots)
KVC_OFFSET(num_copies)
KVC_OFFSET(num_changes)
KVC_OFFSET(num_refused)
KVC_OFFSET(shortage_blocks)
%constant int EVENT_BYTES = sizeof(kvc_event);

// Digests in structs.
%typemap(jni) uint8_t [32] "jbyteArray"
%typemap(jtype) uint8_t [32] "byte[]"
%typemap(jstype) uint8_t [32] "byte[]"
%typemap(javaout) uint8_t [32] "{ return $jnicall; }"
%typemap(out) uint8_t [32] %{
  $result = (*jenv)->NewByteArray(jenv, 32);
  if ($result) (*jenv)->SetByteArrayRegion(jenv, $result, 0, 32, (const jbyte *)$1);
%}

%include "../structs.i"
