// SPDX-License-Identifier: Apache-2.0
// Index arrays of a batch at fixed addresses, brought up to date in a stream. Any thread.
#pragma once
#include "backend/device_stream.h"

namespace kvc::gpu {

kvc_status update_tables(DeviceStream& stream, const kvc_backend_table_update& update);

}  // namespace kvc::gpu
