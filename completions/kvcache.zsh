#compdef kvcache
# SPDX-License-Identifier: Apache-2.0
# zsh completion of kvcache(1): the command itself says what can follow.
local -a found
found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
if (( ${found[(Ie):files]} )); then
  _files
  found=("${(@)found:#:files}")
fi
compadd -a -- found
