// SPDX-License-Identifier: Apache-2.0
// Structs as classes of a language, with accessors that SWIG writes. For Python and Java.

%nodefaultctor kvc_step;
%nodefaultctor kvc_view;

%define KVC_STRUCT(name)
%extend name {
  name() {
    struct name* s = (struct name*)calloc(1, sizeof *s);
    if (s) s->struct_size = sizeof *s;
    return s;
  }
  ~name() { free($self); }
}
%enddef

// Arrays of structs for a config or a step, in C memory: what a struct points to must not move.
%include <carrays.i>
%array_functions(kvc_pool_config, kvc_pool_configs)
%array_functions(kvc_group_config, kvc_group_configs)
%array_functions(kvc_request_config, kvc_request_configs)

// What a config points to; both must live until the manager is created. (A setter of the field would take them over.)
%extend kvc_manager_config {
  void set_memory(const kvc_model *model, kvc_memory_query *query) {
    query->model = model;
    $self->memory = query;
  }
}

// A model's layers with a window or a state, one at a time.
%extend kvc_model {
  int has_window(uint32_t layer) {
    return layer < KVC_MODEL_MAX_LAYERS && ($self->window_layers[layer / 64] >> (layer % 64) & 1);
  }
  void set_window(uint32_t layer) {
    if (layer < KVC_MODEL_MAX_LAYERS) $self->window_layers[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
  int has_state(uint32_t layer) {
    return layer < KVC_MODEL_MAX_LAYERS && ($self->state_layers[layer / 64] >> (layer % 64) & 1);
  }
  void set_state(uint32_t layer) {
    if (layer < KVC_MODEL_MAX_LAYERS) $self->state_layers[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
}
