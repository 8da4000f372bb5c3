# SPDX-License-Identifier: Apache-2.0
"""How lit runs the tests of the dialect. The build writes lit.site.cfg.py, which says where the tools are."""
import os

import lit.formats

config.name = "kvc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = config.kvc_tests
config.test_exec_root = config.kvc_output
for name in ("KVC_TEST_MODULES", "KVC_TEST_SEED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["PATH"] = f"{config.kvc_tools}:{config.llvm_tools}:{config.environment['PATH']}"
config.substitutions += [("%python", config.python), ("%examples", config.kvc_examples), ("%root", config.kvc_root),
                         ("%options", "-DKVC_MLIR=ON -DKVC_TESTS=OFF -DKVC_BENCH=OFF -DKVC_CLI=OFF -DKVC_EXAMPLES=OFF -DKVC_GPU=none")]
