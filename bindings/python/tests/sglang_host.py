# SPDX-License-Identifier: Apache-2.0
"""SGLang's own host pools on the CPU, its factory of storage backends, and the part of its HiCacheController that moves pages to and from storage."""

import queue
import threading
import types

import torch
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

LAYERS, HEADS, DIM, TOKENS = 2, 4, 8, 16
PAGE = 2 * LAYERS * HEADS * DIM * TOKENS * 4


def host_pool(layout="page_first", pages=8, heads=HEADS, dtype=torch.float32):
    buffers = [tuple(torch.zeros(pages * TOKENS, heads, DIM, dtype=dtype) for _ in range(LAYERS)) for _ in "kv"]
    pointers = [torch.tensor([layer.data_ptr() for layer in part], dtype=torch.uint64) for part in buffers]
    kv = KVBuffers(k=buffers[0], v=buffers[1], k_data_ptrs=pointers[0], v_data_ptrs=pointers[1], layout=KVBufferLayout.NHD)
    info = MHABufferInfo(buffers=kv, page_size=TOKENS, head_num=heads, head_dim=DIM, v_head_dim=DIM, dtype=dtype, device=torch.device("cpu"))
    return MHATokenToKVPoolHost(info, 2.0, 0, TOKENS, layout, pin_memory=False, device="cpu", device_capacity_tokens=pages * TOKENS, start_layer=0,
                                end_layer=LAYERS, host_token_capacity=pages * TOKENS)


def config_of(url, in_place=1, tp=(0, 1), mla=False, model="model", **extra):
    return HiCacheStorageConfig(tp_rank=tp[0], tp_size=tp[1], pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=mla,
                                enable_storage_metrics=False, is_page_first_layout=True, model_name=model,
                                extra_config={"backend_name": "kvcache", "module_path": "kvcache.integrations.sglang_tier", "class_name": "KvCacheStorage",
                                              "interface_v1": in_place, "url": url, **extra})


class Host:
    """A host pool with storage below, moved by the functions of SGLang's controller."""

    def __init__(self, url, layout="page_first", in_place=1, pages=8, heads=HEADS, dtype=torch.float32, **config):
        self.pool = host_pool(layout, pages, heads, dtype)
        self.storage = StorageBackendFactory.create_backend("dynamic", config_of(url, in_place, **config), self.pool)
        self.storage.register_mem_pool_host(self.pool)
        self.storage.on_host_pools_registered()
        control = self.controller = HiCacheController.__new__(HiCacheController)  # the rest of it needs a GPU
        control.storage_backend, control.storage_host_pool, control.mem_pool_host, control.page_size = self.storage, self.pool, self.pool, TOKENS
        control.page_get_func = control._page_get_zero_copy if in_place else control._generic_page_get
        control.page_set_func = control._page_set_zero_copy if in_place else control._generic_page_set
        control.prefetch_sync_queue, control.storage_stop_event = queue.Queue(), threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.storage.close()

    def fill(self, seed):
        torch.manual_seed(seed)
        self.pool.kv_buffer.copy_(torch.rand(self.pool.kv_buffer.shape))
        return self.pages()

    def pages(self):
        return [self.pool.get_data_page(start, flat=True).clone() for start in range(0, self.pool.size, TOKENS)]

    def back_up(self, hashes):
        """Pages 0, 1, ... of the pool to storage. Returns tokens done."""
        operation = types.SimpleNamespace(prefix_keys=None, hash_value=list(hashes), host_indices=torch.arange(len(hashes) * TOKENS), completed_tokens=0)
        self.controller._page_backup(operation)
        return operation.completed_tokens

    def prefetch(self, hashes, first=0):
        """Storage to pages first, first + 1, ... Returns pages done."""
        indices = torch.arange(first * TOKENS, (first + len(hashes)) * TOKENS)
        operation = types.SimpleNamespace(request_id="request", prefix_keys=None, hash_value=list(hashes), host_indices=indices, pool_transfers=None,
                                          is_terminated=lambda: False)
        return self.controller._page_transfer(operation)


def hashes_of(numbers):
    return [f"{number:064x}" for number in numbers]
