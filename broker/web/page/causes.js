// The causes of rebalances, in words that are short enough for a column.
const CAUSES = {
  member_joined: "A member joined",
  member_left: "A member left",
  session_expired: "A session expired",
  metadata_changed: "Subscriptions changed",
  leader_rejoined: "The leader rejoined",
  coordinator_restarted: "The broker restarted",
  static_member_replaced: "A static member was replaced",
  sync_timed_out: "A member did not sync in time",
  new_member_timed_out: "A new member's JoinGroup waited too long",
  disconnected: "A new member disconnected",
  group_record_too_large: "The group's record was too large",
  over_max_size: "The group was too large",
  asked_for: "A test requested a rebalance",
  unknown: "Loaded from the log",
};

export const causeOf = (cause) => CAUSES[cause] ?? cause.replaceAll("_", " ");
