# SPDX-License-Identifier: Apache-2.0
# fish completion of kvcache(1): the command itself says what can follow.
function __kvcache_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    for line in ($words[1] __complete $words[2..-1] $current 2>/dev/null)
        if test $line = :files
            __fish_complete_path $current
        else
            echo $line
        end
    end
end
complete --command kvcache --no-files --arguments '(__kvcache_complete)'
