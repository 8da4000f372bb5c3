# SPDX-License-Identifier: Apache-2.0
"""How lit runs the tests of the dialect. The build writes lit.site.cfg.py, which says where the tools are."""
import lit.formats

config.name = "kvc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = config.kvc_tests
config.test_exec_root = config.kvc_output
config.environment["PATH"] = f"{config.kvc_tools}:{config.llvm_tools}:{config.environment['PATH']}"
config.substitutions += [("%python", config.python), ("%examples", config.kvc_examples)]
