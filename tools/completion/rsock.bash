# bash completion for rsock. A test in test/tool compares it with the tool's own tables (rsock
# --help --json).

declare -gA _rsock_options=(
	[run]="--log --log-file --no-spin --spin-us --ring-kb --earn-calls --earn-bytes \
--stat-file --daemon --policy --print --json"
	[stat]="--json --pid --all --interval"
	[top]="-d -n -b --sort --pid --all --json"
	[why]="--json --limit"
	[check]="--json --timeout --echo --serve --bind --once --probe"
	[bench]="--rounds --policy --output --json"
	[reasons]="--json"
	[map]="--socket --json"
	[policy]="--side --base --note --socket --json"
	[drain]="--undo --socket --json"
	[demote]="--all --wait --json"
	[promote]="--all --wait --json"
)

# Options that take a value, and what it may be: "file", "pid", "-" (anything), or the words of a
# list.
declare -gA _rsock_values=(
	[--log]="off error info debug"
	[--log-file]="file"
	[--spin-us]="-"
	[--ring-kb]="-"
	[--earn-calls]="-"
	[--earn-bytes]="-"
	[--stat-file]="file"
	[--daemon]="file"
	[--policy]="spin-us= ring-kb= earn-calls= earn-bytes= log= log-file= stat-file= daemon="
	[--pid]="pid"
	[--interval]="-"
	[--wait]="-"
	[-d]="-"
	[-n]="-"
	[--sort]="rate bytes pid reason"
	[--limit]="-"
	[--timeout]="-"
	[--bind]="-"
	[--rounds]="-"
	[--side]="cp ap"
	[--base]="-"
	[--note]="-"
	[--socket]="file"
)

_rsock_pids() {
	local dir
	for dir in /proc/[0-9]*; do
		printf '%s\n' "${dir#/proc/}"
	done
}

_rsock_value() {
	local values=${_rsock_values[$1]} cur=$2
	case $values in
	file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	pid) mapfile -t COMPREPLY < <(compgen -W "$(_rsock_pids)" -- "$cur") ;;
	-) COMPREPLY=() ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
		;;
	esac
}

# The index of the word at which another program's command line begins; 0: it has not begun.
_rsock_program_at() {
	local i
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--)
			echo $((i + 1))
			return
			;;
		-*) [[ -z ${_rsock_values[${COMP_WORDS[i]}]-} ]] || i=$((i + 1)) ;;
		*)
			echo "$i"
			return
			;;
		esac
	done
	echo 0
}

_rsock() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]-} at
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "${!_rsock_options[*]} --help --version" \
			-- "$cur")
		return
	fi
	[[ -n ${_rsock_options[$command]-} ]] || return
	if [[ $command == run || $command == bench ]]; then
		at=$(_rsock_program_at)
		if ((at && COMP_CWORD > at)); then
			if declare -F _command_offset >/dev/null; then
				_command_offset "$at"
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			fi
			return
		fi
		if ((at)); then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			return
		fi
	fi
	if [[ -n ${_rsock_values[$prev]-} && " ${_rsock_options[$command]} " == *" $prev "* ]]; then
		_rsock_value "$prev" "$cur"
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${_rsock_options[$command]} --help" -- "$cur")
	elif [[ $command == run || $command == bench ]]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	elif [[ $command == why || $command == demote || $command == promote ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_rsock_pids)" -- "$cur")
	elif [[ $command == policy ]]; then
		mapfile -t COMPREPLY < <(compgen -W "check explain show reload push history diff \
rollback members services roles ledger" -- "$cur")
	elif [[ $command == check || $command == map ]]; then
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
	fi
}

complete -F _rsock rsock
