// SPDX-License-Identifier: Apache-2.0
// Updates the index arrays of a batch, which are at fixed addresses, in a stream. Any thread.
#pragma once
#include "backend/device_stream.h"

namespace kvc::gpu {

kvc_status update_tables(DeviceStream& stream, const kvc_backend_table_update& update);

}  // namespace kvc::gpu
