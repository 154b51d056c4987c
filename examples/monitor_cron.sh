#!/bin/sh
# Add a week of labelled rows to the monitor of a model. Cron runs it each Monday at 6:00 and mails what it prints:
#
#   0 6 * * 1 /srv/monitor_cron.sh /srv/documents /srv/labels/$(date -d 'last week' +\%G-W\%V).csv
#
# The first argument is the name of the state without .json, and the second is the file of the week. The script prints
# nothing unless there is an alarm or an error. Change the columns and the options to yours.
set -eu
model=$1
file=$2

status=0
calibrant monitor "$model.json" "$file" --score confidence --outcome correct --quiet \
  --html "$model.html" --prometheus "$model.prom" || status=$?

if [ "$status" = 3 ]; then # an alarm: show it, and write the rows since the onset
  calibrant monitor "$model.json" --since-onset "$model.cal" || true
fi
exit "$status"
