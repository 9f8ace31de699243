//! Extended attributes that a copy carries, in the terms of the file system.

use icdc_disk::tree::AttributeKinds;
use icdc_protocol::message::Preserve;

/// Kinds of extended attributes that the receiver restores with these options.
pub(crate) fn restored(preserve: Preserve) -> AttributeKinds {
    AttributeKinds::USER
        .only_if(preserve.xattr)
        .and(AttributeKinds::ACL.only_if(preserve.acl))
        .and(AttributeKinds::CAPABILITY.only_if(preserve.capabilities()))
        .and(AttributeKinds::SECURITY.only_if(preserve.labels()))
}

/// Kinds of extended attributes that are looked for at the source: those that are restored, and
/// capabilities, to tell of those that are lost.
pub(crate) fn looked_for(preserve: Preserve) -> AttributeKinds {
    restored(preserve).and(AttributeKinds::CAPABILITY.only_if(preserve.xattr))
}
