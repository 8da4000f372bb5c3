# SPDX-License-Identifier: Apache-2.0
"""A KV connector of vLLM whose store has the first blocks of every prompt. It loads them asynchronously; the caller says when they are there."""

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA


class Loads(KVConnectorBase_V1, SupportsHMA):
    blocks, block_size = 3, 16  # in the store

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loading = {}  # request id -> steps until its blocks are there

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        stored = min(self.blocks * self.block_size, (request.num_tokens - 1) // self.block_size * self.block_size)
        return max(0, stored - num_computed_tokens), stored > num_computed_tokens

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self.loading[request.request_id] = 3

    def build_connector_meta(self, scheduler_output):
        return KVConnectorMetadata()

    def request_finished_all_groups(self, request, block_ids):
        return False, None

    def arrived(self):
        """Requests whose loads end with this step."""
        self.loading = {id: steps - 1 for id, steps in self.loading.items()}
        done = {id for id, steps in self.loading.items() if not steps}
        self.loading = {id: steps for id, steps in self.loading.items() if steps}
        return done

    def start_load_kv(self, *args, **kwargs):
        pass

    wait_for_layer_load = save_kv_layer = wait_for_save = start_load_kv
